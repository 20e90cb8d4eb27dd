"""One short sequence of the batch, scored by the policy before and after an update.

It is stored in the checkpoint. An engine that loads the adapter scores the same ids, and its log-probabilities show
which of the two policies it plays: an engine that kept the previous adapter, or applied the new one wrongly, is stopped
before any rollout.

At its positions the distributions of three policies are compared too: before the update, after it, and of the base
model. The divergences are exact where the policy before the update, which sampled the tokens, has led; a whole
rollout's is their sum (the chain rule).
"""

import json
import math
from pathlib import Path
from typing import Any

import torch

from . import head
from .backend import Backend
from .batch import Batch, BatchSequence
from .errors import Refused
from .packing import plan_trajectories

FILE = "probe.json"
MOST_TOKENS = 512
"""Tokens of the sequence, unless its prompt alone is longer: the first tokens after it are always included."""
LEAST_AFTER_PROMPT = 128
ENOUGH_SAMPLED = 32
"""The mean of fewer tokens says little: a longer trajectory is used then."""


def choose(batch: Batch) -> BatchSequence:
    """The shortest trajectory with enough sampled tokens, else the one with the most; truncated."""
    cut = [_cut(trajectory) for trajectory in batch.sequences]
    enough = [trajectory for trajectory in cut if int(trajectory.sampled.sum()) >= ENOUGH_SAMPLED]
    if enough:
        return min(enough, key=lambda trajectory: len(trajectory.ids))
    return max(cut, key=lambda trajectory: int(trajectory.sampled.sum()))


def _cut(trajectory: BatchSequence) -> BatchSequence:
    # Not the group's prompt: the sequences of an agent may share less than their own.
    most = max(MOST_TOKENS, int(trajectory.sampled.nonzero()[0]) + LEAST_AFTER_PROMPT)
    ids, sampled = trajectory.ids[:most], trajectory.sampled[:most]
    return BatchSequence(ids, sampled, trajectory.group, trajectory.prompt, trajectory.first_slot)


class Probe:
    """Computed before the update."""

    def __init__(self, backend: Backend, batch: Batch) -> None:
        self._backend = backend
        self._trajectory = choose(batch)
        self._temperature = batch.temperature
        (self._pack,) = plan_trajectories([self._trajectory], len(self._trajectory.ids))
        self._hidden = self._states()
        self._before = self._logprobs(self._hidden)
        # The tokens that could come are not the probe's.
        self.as_sampled = None if batch.sets is not None else self._as_sampled()
        """Log-probabilities of its sampled tokens at the sampling temperature, before the update: computed apart from
        the rows of updates."""
        self.slots = self._pack.slots
        """Their indices among the batch's."""
        self._base = self._base_states()
        self.is_base = self._base is not None and torch.equal(self._hidden, self._base)
        """Whether the policy before the update is that of the base model, to the last bit."""

    def finished(self) -> tuple[dict[str, Any] | None, dict[str, Any]]:
        """After the update: the content of the file, or None when a log-probability is not a finite number; and mean KL
        divergences over the `n` positions, nats: of the policy before the update from the `base` model, and from the
        policy after the `update`. None where one is not finite, and for `base` where all weights are trained.
        """
        hidden = self._states()
        others = [hidden] if self._base is None else [hidden, self._base]
        found = head.divergences(self._hidden, others, self._backend.output_weight(), self._temperature)
        means = [mean if math.isfinite(mean) else None for mean in (one.double().mean().item() for one in found)]
        divergences = {"base": means[1] if len(means) > 1 else None, "update": means[0], "n": len(self._pack.slots)}
        now = self._logprobs(hidden)
        if not (self._before.isfinite().all() and now.isfinite().all()):
            return None, divergences
        file = {
            "version": 1,
            "ids": self._trajectory.ids.tolist(),
            "scored": self._trajectory.sampled.nonzero().flatten().tolist(),
            "logprobs": now.tolist(),
            "before": self._before.tolist(),
        }
        return file, divergences

    def _base_states(self) -> torch.Tensor | None:
        """None where all weights are trained: the base model is not kept."""
        try:
            with self._backend.base_policy():
                return self._states()
        except Refused:
            return None

    @torch.no_grad()
    def _states(self) -> torch.Tensor:
        return self._backend.hidden(self._pack)

    def _as_sampled(self) -> torch.Tensor:
        return self._before if self._temperature == 1 else self._logprobs(self._hidden, self._temperature)

    def _logprobs(self, hidden: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
        """Of the sampled tokens."""
        pack = self._pack
        weight = self._backend.output_weight()
        return head.score(hidden, weight, pack.sources, pack.targets, temperature).logprobs.cpu()


def write(folder: Path, probe: dict[str, Any] | None) -> None:
    if probe is None:
        (folder / FILE).unlink(missing_ok=True)
    else:
        (folder / FILE).write_text(json.dumps(probe, allow_nan=False))
