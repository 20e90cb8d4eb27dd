"""Rows for a backend that cannot compute a prefix once for several rollouts: each holds whole trajectories."""

from dataclasses import replace
from typing import Protocol

from .batch import Trajectory


class Sharing(Protocol):
    shares: bool
    """Whether one prefix in a row may serve several trajectories."""


def apart(trajectories: list[Trajectory]) -> list[Trajectory]:
    """The same, each as a group of its own: only within a group is anything shared."""
    return [replace(trajectory, group=number) for number, trajectory in enumerate(trajectories)]


def for_rows(backend: Sharing, trajectories: list[Trajectory]) -> list[Trajectory]:
    """What plan_trajectories is to be given for this backend."""
    return trajectories if backend.shares else apart(trajectories)
