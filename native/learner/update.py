"""The policy-gradient updates on one batch: for each mini-batch forward and backward over its rows, then Adam."""

import math
import random
import time
from dataclasses import dataclass
from typing import Any

import torch

from . import head, loss
from .backend import Backend, Repeat
from .batch import Batch, Trajectory
from .checkpoint import earlier_policy
from .errors import Refused
from .importance import effective_sample_size, importance_metrics, read_importance
from .memory import forget
from .objective import read_objective
from .optimizer import Optimizer
from .packing import Pack, plan_trajectories
from .played import played_by
from .probe import Probe
from .protocol import Progress
from .scaling import in_bf16


@dataclass
class _Tokens:
    """Values of each sampled token of the batch, [S]."""

    new: torch.Tensor
    old: torch.Tensor
    entropy: torch.Tensor
    scale: torch.Tensor
    """See loss.token_scale."""
    base: torch.Tensor | None


@dataclass(frozen=True)
class _MiniBatch:
    """Input of one update."""

    packs: list[Pack]
    slots: torch.Tensor


@dataclass(frozen=True)
class _Pass:
    """A forward and backward pass over a mini-batch."""

    first: bool
    """Whether it computes the policy before any update."""
    scale: float
    """See LossScale."""


def settings_of(request: dict[str, Any]) -> loss.LossSettings:
    return loss.LossSettings(
        objective=read_objective(request["objective"], list(loss.SURROGATES)),
        importance=read_importance(request["importance"]),
        kl_coefficient=request["klCoefficient"],
    )


def deal(batch: Batch, count: int, seed: int) -> list[list[Trajectory]]:
    """Assigns whole groups to mini-batches, as evenly as possible; never more mini-batches than groups."""
    groups = sorted({trajectory.group for trajectory in batch.trajectories})
    count = min(count, len(groups))
    if count > 1:
        random.Random(seed).shuffle(groups)
    hands = [set(groups[number::count]) for number in range(count)]
    return [[trajectory for trajectory in batch.trajectories if trajectory.group in hand] for hand in hands]


def policy_update(
    backend: Backend, optimizer: Optimizer, batch: Batch, request: dict[str, Any], progress: Progress
) -> dict[str, Any]:
    """Applies all updates, or none when a loss or gradient of one is not finite. Returns the metrics; if the updates
    were applied, they include the `probe`.

    A gradient that overflows in f16 is recomputed at a lower scale. Where that does not help, because activations
    exceed f16's range, everything is repeated in bf16, and stays in bf16 if that helps.

    π_old is the policy before the first update. The first mini-batch gets it from its own first pass; the others need a
    pass without gradient, before any update.

    Raises Refused when the batch has no advantage to learn from.
    """
    if not batch.advantages.any() and not request["klCoefficient"]:
        raise Refused(
            "every advantage of the batch is 0: its groups have no spread in reward, so there is nothing to learn"
        )
    started = time.monotonic()
    played = _played(backend, batch, request)
    metrics = _updates(backend, optimizer, batch, request, progress)
    if metrics["skipped"] and backend.precision == "f16":
        overflows = metrics["overflows"] + 1

        def again() -> dict[str, Any]:
            return _updates(backend, optimizer, batch, request | {"gradientCheckpointing": True}, progress)

        metrics = in_bf16(backend, optimizer.scale, again, lambda metrics: not metrics["skipped"])
        metrics["overflows"] = overflows
    return metrics | {"played": played, "seconds": {"update": time.monotonic() - started}}


def _played(backend: Backend, batch: Batch, request: dict[str, Any]) -> dict[str, Any] | None:
    """Whether the current policy played the batch, or the earlier one that the request names."""
    earlier = request.get("earlier")
    if earlier is None:
        return None
    slope = played_by(backend, batch, request["microBatchTokens"], earlier_policy(earlier["checkpoint"], backend))
    return slope and slope.metrics()


def _updates(
    backend: Backend, optimizer: Optimizer, batch: Batch, request: dict[str, Any], progress: Progress
) -> dict[str, Any]:
    settings = settings_of(request)
    empty = torch.full((batch.sampled_tokens,), float("nan"))
    tokens = _Tokens(empty.clone(), empty.clone(), empty.clone(), empty, None)
    dealt = deal(batch, request.get("minibatches", 1), request.get("seed", 0))
    minibatches = [_minibatch(backend, batch, trajectories, tokens, settings, request) for trajectories in dealt]
    packs = [pack for minibatch in minibatches for pack in minibatch.packs]
    others = [pack for minibatch in minibatches[1:] for pack in minibatch.packs]
    backend.checkpointing(request["gradientCheckpointing"])
    epochs = request.get("epochs", 1)
    before = optimizer.snapshot()
    rows = len(packs) * (epochs + (1 if settings.kl_coefficient else 0)) + len(others)
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        # Repeated rows are not counted twice.
        progress("update", min(done, rows), rows)

    optimizer.clear()
    losses: list[float] = []
    norms: list[float] = []
    acted_on = {"below": 0, "above": 0}
    seen = overflows = 0
    skipped = None
    metrics: dict[str, Any] = {}
    try:
        probe = Probe(backend, batch)
        if settings.kl_coefficient:
            with backend.base_policy():
                tokens.base, _ = _score(backend, batch, packs, tick)
        if others:
            slots = torch.cat([pack.slots for pack in others])
            logprobs, entropy = _score(backend, batch, others, tick)
            tokens.old[slots], tokens.entropy[slots] = logprobs[slots], entropy[slots]
        for number, minibatch in enumerate(minibatches * epochs):
            first = number == 0
            while True:
                of = _Pass(first, optimizer.scale.value)
                try:
                    value = sum(
                        _accumulate(backend, batch, pack, tokens, settings, of, tick) for pack in minibatch.packs
                    )
                except Repeat:
                    optimizer.clear()
                    continue
                norm = optimizer.clip(request["maxGradNorm"])
                if not optimizer.scale.repeats(value, norm):
                    break
                overflows += 1
                optimizer.clear()
            losses.append(value)
            norms.append(norm)
            if first:
                # The first pass has computed the policy before any update.
                tokens.old[minibatch.slots] = tokens.new[minibatch.slots]
                metrics = _before(batch, tokens, settings)
            of_update = _of(batch, tokens, minibatch.slots, tokens.new[minibatch.slots])
            for side, tokens_there in zip(acted_on, loss.bounded(of_update, settings.objective), strict=True):
                acted_on[side] += int(tokens_there.sum())
            seen += len(minibatch.slots)
            skipped = "loss" if not math.isfinite(losses[-1]) else "gradient" if not math.isfinite(norms[-1]) else None
            if skipped:
                optimizer.restore(before)
                break
            optimizer.update(request["learningRate"])
            optimizer.clear()
        if not skipped:
            metrics["probe"], metrics["probeKl"] = probe.finished()
    except BaseException as error:
        # A lack of memory, for example: the next attempt must start from the same state, and restoring needs memory
        # too.
        forget(error)
        optimizer.restore(before)
        raise
    finally:
        optimizer.clear()
    return (
        {"probeKl": None}
        | metrics
        | {
            "loss": _finite_mean(losses),
            "gradNorm": _finite_mean(norms),
            "skipped": skipped,
            "applied": skipped is None,
            "clip": {side: count / seen for side, count in acted_on.items()},
            "overflows": overflows,
            "updates": 0 if skipped else len(losses),
            "groups": batch.groups,
            "trajectories": batch.rollouts,
            "sequences": len(batch.trajectories),
            "tokens": {
                "total": batch.tokens,
                "sampled": batch.sampled_tokens,
                "computed": sum(len(pack.ids) + backend.padding(pack) for pack in packs),
                "padding": sum(backend.padding(pack) for pack in packs),
            },
            "microBatches": len(packs),
            "learningRate": request["learningRate"],
        }
    )


def _minibatch(
    backend: Backend,
    batch: Batch,
    trajectories: list[Trajectory],
    tokens: _Tokens,
    settings: loss.LossSettings,
    request: dict[str, Any],
) -> _MiniBatch:
    packs = plan_trajectories(trajectories, request["microBatchTokens"], backend.shares)
    slots = torch.cat([pack.slots for pack in packs])
    # What is not in the batch is distributed like what is.
    dealt = len({trajectory.member for trajectory in trajectories}) / batch.rollouts
    played = loss.Played(
        rollouts=request.get("rollouts", batch.rollouts) * dealt,
        tokens=request.get("sampledTokens", batch.sampled_tokens) * len(slots) / batch.sampled_tokens,
    )
    constant = request.get("maxCompletionTokens")
    tokens.scale[slots] = loss.token_scale(settings.objective, batch.member[slots], played, constant)
    return _MiniBatch(packs, slots)


def _of(batch: Batch, tokens: _Tokens, slots: torch.Tensor, new: torch.Tensor) -> loss.Tokens:
    return loss.Tokens(
        new=new,
        old=tokens.old[slots],
        rollout=batch.rollout[slots],
        advantages=batch.advantages[slots],
        owner=batch.owner[slots],
        base=None if tokens.base is None else tokens.base[slots],
    )


def _accumulate(
    backend: Backend,
    batch: Batch,
    pack: Pack,
    tokens: _Tokens,
    settings: loss.LossSettings,
    of: _Pass,
    tick: Any,
) -> float:
    """Forward and backward of one row; adds to the gradients. Returns the row's share of the loss.

    Where a token's gradient depends on its whole trajectory, the output layer is applied twice: once for all
    log-probabilities, once for the gradients. Memory stays that of one chunk of logits (head.py), and the
    transformer's own passes are not repeated.
    """
    hidden = backend.hidden(pack)
    scored = (hidden.detach(), backend.output_weight(), pack.sources, pack.targets, batch.temperature)
    total = 0.0

    def slope(logprobs: torch.Tensor, part: slice) -> torch.Tensor:
        nonlocal total
        here = pack.slots[part]
        with torch.enable_grad():
            new = logprobs.cpu().requires_grad_(True)
            if of.first:
                tokens.old[here] = new.detach()
            value = (loss.policy_loss(_of(batch, tokens, here, new), settings) * tokens.scale[here]).sum()
            (derivative,) = torch.autograd.grad(value, new)
        total += value.item()
        return (derivative * of.scale).to(logprobs.device)

    token_gradient: head.TokenGradient = slope
    if settings.whole_trajectories:
        slopes = slope(head.score(*scored).logprobs, slice(None))

        def token_gradient(_: torch.Tensor, part: slice) -> torch.Tensor:
            return slopes[part]

    scores = head.score(*scored, token_gradient)
    backend.backward(hidden, scores.gradient)
    tokens.new[pack.slots] = scores.logprobs.cpu()
    if of.first:
        tokens.entropy[pack.slots] = scores.entropy.cpu()
    tick()
    return total


@torch.no_grad()
def _score(backend: Backend, batch: Batch, packs: list[Pack], tick: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities and entropies of the packs' tokens, [S of the batch]; other entries are not set."""
    logprobs, entropy = torch.empty(batch.sampled_tokens), torch.empty(batch.sampled_tokens)
    for pack in packs:
        hidden = backend.hidden(pack)
        scores = head.score(hidden, backend.output_weight(), pack.sources, pack.targets, batch.temperature)
        logprobs[pack.slots], entropy[pack.slots] = scores.logprobs.cpu(), scores.entropy.cpu()
        tick()
    return logprobs, entropy


def _finite_mean(values: list[float]) -> float | None:
    mean = sum(values) / len(values)
    return mean if math.isfinite(mean) else None


def _before(batch: Batch, tokens: _Tokens, settings: loss.LossSettings) -> dict[str, Any]:
    """Metrics of the policy before the updates. NaN log-probabilities (the loss is then NaN too) are left out."""
    known = tokens.old.isfinite()
    old, rollout = tokens.old[known], batch.rollout[known]
    if not len(old):
        old = rollout = torch.zeros(1)
    base_kl = math.nan if tokens.base is None else loss.k3(tokens.old, tokens.base).double().nanmean().item()
    entropy = tokens.entropy.double().nanmean().nan_to_num().item()
    return loss.mismatch_metrics(old, rollout) | {
        "klBase": base_kl if math.isfinite(base_kl) else None,
        "entropy": entropy,
        "importance": importance_metrics(tokens.old, batch.rollout, batch.owner, settings.importance)
        | {"ess": effective_sample_size(old, rollout)},
    }
