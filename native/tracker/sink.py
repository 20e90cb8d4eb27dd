"""The interface of a tracker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass
class Opened:
    """Address of the run for the user."""

    where: str
    """One line for people, where something is not as they asked for it."""
    note: str | None = None
    """False where nothing is written at all: a later process then has all of it to write."""
    recorded: bool = True
    """What another process needs to go on with the same run."""
    kept: dict[str, Any] = field(default_factory=dict)


class Sink(Protocol):
    def open(self, about: dict[str, Any], kept: dict[str, Any], last: int) -> Opened:
        """Starts the run, or resumes it after the step `last`, which is -1 for a new one."""

    def row(self, step: int, values: dict[str, float], rollouts: dict[str, Any] | None) -> None:
        """Records the metrics of a step by name, and a sample of its rollouts as a table."""

    def adapter(self, about: dict[str, Any]) -> None:
        """Records the final adapter."""

    def close(self, whole: bool) -> None:
        """`whole` is true if hone requested the end, false if hone itself has ended."""
