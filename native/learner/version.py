"""The version of the policy that played a batch: the learner's current one, or with --staleness an older checkpoint.

The log-probabilities of a batch's tokens are those of the version that played them. The importance weights of the loss
need nothing else (loss.py). But the distance of engine and learner, and which policy the engine played, are questions
about one version: they are asked of the older one, over a share of the batch, since each of its tokens is computed once
more.
"""

from dataclasses import dataclass, field
from typing import Any

import torch

from . import loss
from .as_played import Policy, rounding, within
from .backend import Backend
from .batch import Batch
from .checkpoint import earlier_policy
from .played import Slope, played_by, rounding_of
from .ranks import Ranks
from .request import StepRequest


@dataclass(frozen=True)
class Version:
    slopes: list[Slope | None] = field(default_factory=list)
    """Whether the engine played this version, or an earlier one: the earliest, and that of one update before."""
    logprobs: torch.Tensor | None = None
    """Of the batch's tokens under it, [S], NaN where they were not computed."""
    older: bool = False
    """Than the current policy."""

    def metrics(self, old: torch.Tensor) -> dict[str, Any] | None:
        """The metric `played`. `old`: log-probabilities [S] under the current policy, in the update's own rows."""
        slopes = self.slopes
        if not self.older and self.logprobs is not None:
            variance = rounding_of(self.logprobs, old)
            slopes = [one and one.without_rounding(variance) for one in slopes]
        first, last = (slopes[0], slopes[-1]) if slopes else (None, None)
        return first and first.metrics() | {"previous": last and last.metrics()}

    def distances(self, old: torch.Tensor, rollout: torch.Tensor) -> dict[str, Any]:
        """Between the engine and the learner, both with this version, and its `drift`: how far the current policy is
        from it, as mean distance and estimate (k3) of KL(version ‖ current), nats a token, over `n` tokens.

        `old` and `rollout`: log-probabilities [S] under the current policy and as played. NaN are left out.
        """
        known = old.isfinite()
        own = self.logprobs if self.older else None
        scored = known if own is None else known & own.isfinite()
        if own is None or not scored.any():
            nothing = torch.zeros(1)
            old, rollout = (old[known], rollout[known]) if known.any() else (nothing, nothing)
            return loss.mismatch_metrics(old, rollout) | {"drift": None}
        own = own[scored]
        apart = loss.mismatch_metrics(old[scored], own)
        drift = {"mean": apart["mismatch"]["mean"], "kl": apart["mismatchKl"]["k3"], "n": len(own)}
        return loss.mismatch_metrics(own, rollout[scored]) | {"drift": drift}


def of_batch(backend: Backend, batch: Batch, request: StepRequest, ranks: Ranks) -> Version:
    """The version that the request names (`playedBy`, else the current policy), and whether it played, or one of the
    earlier policies that the request names.

    Raises Refused when a checkpoint cannot be read.
    """
    policies = [one.checkpoint for one in (request.earlier, request.previous) if one is not None]
    older = request.played_by
    if not policies and older is None:
        return Version()
    as_played = as_engine(backend, request)
    by = within(earlier_policy(older.checkpoint, backend), as_played) if older else as_played
    earlier = [within(earlier_policy(one, backend), as_played) for one in policies]
    with by():
        slopes, scores = played_by(backend, batch, request.micro_batch_tokens, earlier, ranks, score=older is not None)
    return Version(slopes, scores, older is not None)


def as_engine(backend: Backend, request: StepRequest) -> Policy:
    """As the engine of the request rounds adapters."""
    return rounding(backend, request.adapter_type)
