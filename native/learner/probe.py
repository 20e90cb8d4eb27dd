"""One short sequence of the batch, scored by the policy before and after an update.

It is stored in the checkpoint. An engine that loads the adapter scores the same ids, and its log-probabilities show
which of the two policies it plays: an engine that kept the previous adapter, or applied the new one wrongly, is stopped
before any rollout.
"""

import json
from pathlib import Path
from typing import Any

import torch

from . import head
from .backend import Backend
from .batch import Batch, Trajectory
from .packing import plan_trajectories

FILE = "probe.json"
MOST_TOKENS = 512
"""Tokens of the sequence, unless its prompt alone is longer: the first tokens after it are always included."""
LEAST_AFTER_PROMPT = 128
ENOUGH_SAMPLED = 32
"""The mean of fewer tokens says little: a longer trajectory is used then."""


def choose(batch: Batch) -> Trajectory:
    """The shortest trajectory with enough sampled tokens, else the one with the most; truncated."""
    cut = [_cut(trajectory) for trajectory in batch.trajectories]
    enough = [trajectory for trajectory in cut if int(trajectory.sampled.sum()) >= ENOUGH_SAMPLED]
    if enough:
        return min(enough, key=lambda trajectory: len(trajectory.ids))
    return max(cut, key=lambda trajectory: int(trajectory.sampled.sum()))


def _cut(trajectory: Trajectory) -> Trajectory:
    # Not the group's prompt: the sequences of an agent may share less than their own.
    most = max(MOST_TOKENS, int(trajectory.sampled.nonzero()[0]) + LEAST_AFTER_PROMPT)
    ids, sampled = trajectory.ids[:most], trajectory.sampled[:most]
    return Trajectory(ids, sampled, trajectory.group, trajectory.prompt, 0)


class Probe:
    """Computed before the update."""

    def __init__(self, backend: Backend, batch: Batch) -> None:
        self._backend = backend
        self._trajectory = choose(batch)
        self._before = self._logprobs()

    def written(self) -> dict[str, Any] | None:
        """Content of the file, after the update; None when a log-probability is not a finite number."""
        now = self._logprobs()
        if not (self._before.isfinite().all() and now.isfinite().all()):
            return None
        return {
            "version": 1,
            "ids": self._trajectory.ids.tolist(),
            "scored": self._trajectory.sampled.nonzero().flatten().tolist(),
            "logprobs": now.tolist(),
            "before": self._before.tolist(),
        }

    @torch.no_grad()
    def _logprobs(self) -> torch.Tensor:
        """Of the sampled tokens, under the softmax at temperature 1."""
        (pack,) = plan_trajectories([self._trajectory], len(self._trajectory.ids))
        hidden = self._backend.hidden(pack)
        return head.score(hidden, self._backend.output_weight(), pack.sources, pack.targets, 1.0).logprobs.cpu()


def write(folder: Path, probe: dict[str, Any] | None) -> None:
    if probe is None:
        (folder / FILE).unlink(missing_ok=True)
    else:
        (folder / FILE).write_text(json.dumps(probe, allow_nan=False))
