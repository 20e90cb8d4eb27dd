"""Which policy played a batch: the one that is said to have, here the current one, or an earlier one.

Of a sampled token, let e be the engine's log-probability, c the current policy's and p the earlier one's. An engine
that plays the current policy has e = c + rounding, one that plays the earlier policy e = p + rounding: the slope of
e - p on c - p is 1 or 0. Unlike the distance |e - c|, it does not depend on how far the update moved the policy, as
long as that is more than rounding; otherwise its standard error is large.

- A token that both policies are sure of has neither rounding nor change. Both grow in proportion to 1 - probability,
  the derivative of log-softmax in the token's own logit: both sides are divided by it.
- A few unlikely tokens have rounding far above the others': Huber's regression (Huber 1964, "Robust estimation of a
  location parameter") instead of least squares.
- Rollouts of one prompt repeat each other: a token counts once for all that have the same tokens before it.
- Where p is several updates old, an engine that lags by one has most of the way from p to c behind it, and its slope is
  near 1: the slope from the policy of one update before tells it apart, by itself or with those of other steps.
"""

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch

from . import head
from .backend import Backend
from .batch import Batch, BatchSequence
from .packing import Pack
from .ranks import ALONE, Ranks

SHARE = 0.25
"""Part of the batch's tokens that is computed at most, once with each policy: by rollouts, and at least one. Twice as
much while there are fewer than FEWEST to compare."""
ENOUGH = 0.1
"""Standard error of the slope with which no further tokens are computed."""
UNSURE = 0.02
"""A token is used if its probability under one of the policies is less than 1 minus this."""
FEWEST = 8
"""Tokens, at least."""
UNKNOWN = 10
"""The standard error is raised by this, divided by the number of tokens with an equal leverage that would tell as much:
it is itself uncertain, and tokens of one kind are not independent. Student's t needs about as much for the same
confidence at 4 standard errors."""
HUBER = 1.345
"""Residuals above this many standard deviations are bounded: 95 % efficiency with normal residuals."""


@dataclass(frozen=True)
class Slope:
    value: float
    error: float
    """Standard error: the sandwich estimate with residuals divided by 1 - leverage (HC3), raised by UNKNOWN."""
    tokens: int
    """Number of tokens used."""
    spread: float
    """Mean square of what it is a slope on: of the difference of the two policies, divided by 1 - probability."""

    def without_rounding(self, variance: float) -> "Slope":
        """Without the bias of the learner's own rounding, of this variance (rounding_of): it is in both policies, so
        twice in the spread, and once in the product with the engine's values, which have the earlier policy's too.

        That is the most that it can be: two policies that differ little are rounded alike in the same rows, and then
        the slope without it is too steep. So what it changes is added to the error.
        """
        left = self.spread - 2 * variance
        # No more is left than was taken out: nothing is told.
        if left < 2 * variance:
            return replace(self, error=max(self.error, 1.0))
        value = (self.value * self.spread - variance) / left
        error = self.error * self.spread / left + abs(value - self.value)
        return replace(self, value=value, error=error)

    def metrics(self) -> dict[str, Any]:
        return {"slope": self.value, "error": self.error, "tokens": self.tokens}


Policy = Callable[[], AbstractContextManager[None]]
"""Makes contexts in which the backend is an earlier policy."""


def slope(played: torch.Tensor, current: torch.Tensor, earlier: torch.Tensor) -> Slope | None:
    """From log-probabilities [S] of tokens; None where they cannot tell the policies apart."""
    finite = played.isfinite() & current.isfinite() & earlier.isfinite()
    e, c, p = (values[finite].double() for values in (played, current, earlier))
    unsure = 1 - torch.minimum(c, p).exp()
    used = unsure >= UNSURE
    x, y = ((c - p) / unsure)[used], ((e - p) / unsure)[used]
    if len(x) < FEWEST or not x.any():
        return None
    return _huber(x, y)


def rounding_of(some: torch.Tensor, again: torch.Tensor) -> float:
    """Variance of the learner's rounding, as it counts in a slope, from log-probabilities [S] of one policy that were
    computed twice, in other rows; NaN are left out."""
    known = some.isfinite() & again.isfinite()
    one, other = some[known].double(), again[known].double()
    unsure = 1 - torch.minimum(one, other).exp()
    used = unsure >= UNSURE
    apart = ((one - other) / unsure)[used].abs()
    # Of most tokens: those of a few are bounded in the regression.
    return (1.4826 * apart.median().item()) ** 2 / 2 if len(apart) else 0.0


def _huber(x: torch.Tensor, y: torch.Tensor) -> Slope | None:
    """Regression through the origin by iteratively reweighted least squares, from the least absolute residuals on."""
    value = _least_absolute(x, y)
    for _ in range(50):
        residuals = y - value * x
        # The median absolute deviation, as a standard deviation.
        bound = HUBER * 1.4826 * residuals.abs().median()
        weights = torch.where(residuals.abs() > bound, bound / residuals.abs(), 1.0)
        last, value = value, (weights * x * y).sum() / (weights * x * x).sum()
        if not (value - last).abs() > 1e-9:
            break
    residuals = y - value * x
    within = (residuals.abs() <= bound) * x * x
    leverage = (within / within.sum()).clamp(max=1 - 1e-9)
    error = (weights * x * residuals / (1 - leverage)).square().sum().sqrt() / within.sum()
    informs = weights * x * x
    error *= 1 + UNKNOWN * informs.square().sum() / informs.sum().square()
    if not (value.isfinite() and error.isfinite()):
        return None
    return Slope(value.item(), error.item(), len(x), (informs.sum() / weights.sum()).item())


def _least_absolute(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Slope with the least sum of absolute residuals: the median of y/x, weighted by |x|."""
    moved = x != 0
    ratios, order = (y[moved] / x[moved]).sort()
    below = x[moved].abs()[order].cumsum(0)
    return ratios[int((below < below[-1] / 2).sum())]


def played_by(
    backend: Backend,
    batch: Batch,
    budget: int,
    earlier: Sequence[Policy],
    ranks: Ranks = ALONE,
    score: bool = False,
) -> tuple[list[Slope | None], torch.Tensor]:
    """The slope from each earlier policy, over as few rollouts of the batch as tell for all of them, in rows of at most
    `budget` positions as in packing.py; and the log-probabilities [S] under the backend's policy that were computed for
    that, NaN elsewhere. With `score` they are computed for SHARE of the batch in any case.

    Each row is computed with all policies, so that their rounding is alike; the backend's weights are as before
    afterwards. None where the tokens do not tell.
    """
    seen: set[int] = set()
    current, *before = (torch.full_like(batch.rollout, torch.nan) for _ in range(1 + len(earlier)))
    counted = torch.zeros_like(batch.rollout, dtype=torch.bool)
    results: list[Slope | None] = [None for _ in earlier]
    done = spent = 0
    # A short row occupies a card's host for as long as a whole one.
    first = len(_fitting(batch.sequences, budget, least=1)) if backend.device.type == "cuda" else 1
    while True:
        unsure = any(one is None or one.error > ENOUGH for one in results)
        if not unsure and not score:
            break
        room = (SHARE if all(results) else 2 * SHARE) * batch.tokens - spent
        # 1, 1, 2, 4, ... (or `first`, as many again, ...) in the batch's order, in which sequences of a group are
        # neighbours.
        trajectories = _fitting(batch.sequences[done : max(first, 2 * done)], room, least=0 if done else 1)
        if not trajectories:
            break
        done += len(trajectories)
        spent += sum(len(one.ids) for one in trajectories)
        packs, own = ranks.plan(backend, trajectories, budget)
        compared, scores = (earlier, before) if unsure else ([], [])
        for policy, found in zip((nullcontext, *compared), (current, *scores), strict=True):
            with policy():
                ranks.together("played", functools.partial(_score, backend, batch, found, own))
        ranks.collect([current, *scores], own, torch.cat([pack.slots for pack in packs]))
        if not unsure:
            continue
        for one in trajectories:
            slots = torch.arange(one.first_slot, one.first_slot + int(one.sampled.sum()))
            counted[slots] = first_of_their_kind(one, seen)
        results = [slope(batch.rollout, current.where(counted, torch.nan), scores) for scores in before]
    return results, current


def _fitting(trajectories: list[BatchSequence], room: float, least: int) -> list[BatchSequence]:
    """The first ones with at most so many tokens together, and at least `least` of them."""
    ends = torch.tensor([len(one.ids) for one in trajectories]).cumsum(0)
    return trajectories[: max(least, int((ends <= room).sum()))]


def first_of_their_kind(trajectory: BatchSequence, seen: set[int]) -> torch.Tensor:
    """For each sampled token whether no token before had the same prefix; adds them to `seen`."""
    first = []
    prefix = 0
    for token, sampled in zip(trajectory.ids.tolist(), trajectory.sampled.tolist(), strict=True):
        prefix = hash((prefix, token))
        if sampled:
            first.append(prefix not in seen)
            seen.add(prefix)
    return torch.tensor(first)


@torch.no_grad()
def _score(backend: Backend, batch: Batch, into: torch.Tensor, packs: list[Pack]) -> None:
    """Sets log-probabilities [S] of the rows' tokens under the backend's policy."""
    for pack in packs:
        hidden = backend.hidden(pack)
        scores = head.score(
            hidden,
            backend.output_weight(),
            pack.sources,
            pack.targets,
            batch.temperature,
            allowed=head.allowed_of(pack, batch, hidden.device),
        )
        into[pack.slots] = scores.logprobs.cpu()
