"""The policy-gradient updates on one batch: for each mini-batch forward and backward over its rows, then Adam."""

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from . import head, loss
from .as_played import Policy
from .backend import Backend, Repeat
from .batch import Batch, Trajectory
from .device import on_device
from .errors import Refused
from .importance import effective_sample_size, importance_metrics, read_importance
from .memory import forget
from .objective import read_objective
from .optimizer import Optimizer
from .packing import Pack
from .probe import Probe
from .protocol import Progress
from .ranks import ALONE, Ranks
from .scaling import in_bf16
from .second_path import check_rows, check_trained
from .version import Version, of_batch, rounding_of

CPU = torch.device("cpu")


@dataclass
class _Tokens:
    """Values of each sampled token of the batch, [S], where rows are computed; NaN until they are computed."""

    new: torch.Tensor
    """Log-probability under the policy of the latest pass."""
    old: torch.Tensor
    """Under π_old, the policy before the first update."""
    entropy: torch.Tensor
    """Of π_old."""
    base: torch.Tensor | None
    """Log-probability under the base model, where it is part of the loss."""


@dataclass(frozen=True)
class _MiniBatch:
    """Input of one update."""

    packs: list[Pack]
    own: list[Pack]
    """Those that this rank computes."""
    slots: torch.Tensor
    """Indices of its tokens among the batch's."""
    rollouts: int


@dataclass
class _Applied:
    """Records of the updates so far."""

    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    tokens: int = 0
    clipped_below: int = 0
    clipped_above: int = 0
    """Of the tokens, those on which a bound of the policy ratio acted."""
    overflows: int = 0
    skipped: str | None = None
    """"loss" or "gradient": which of the latest update was not finite."""

    def metrics(self) -> dict[str, Any]:
        return {
            "loss": _finite_mean(self.losses),
            "gradNorm": _finite_mean(self.norms),
            "skipped": self.skipped,
            "applied": self.skipped is None,
            "clip": {"below": self.clipped_below / self.tokens, "above": self.clipped_above / self.tokens},
            "overflows": self.overflows,
            "updates": 0 if self.skipped else len(self.losses),
        }


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
    backend: Backend,
    optimizer: Optimizer,
    batch: Batch,
    request: dict[str, Any],
    progress: Progress,
    ranks: Ranks = ALONE,
) -> dict[str, Any]:
    """Applies all updates, or none when a loss or gradient of one is not finite. Returns the metrics; if the updates
    were applied, they include the `probe`.

    A gradient that overflows in f16 is recomputed at a lower scale. Where that does not help, because activations
    exceed f16's range, everything is repeated in bf16, and stays in bf16 if that helps.

    π_old is the policy before the first update. The first mini-batch gets it from its own first pass; the others need a
    pass without gradient, before any update.

    Several ranks compute the same update: each the rows that are its own, with the normaliser of the whole step, and
    everything that follows from the sum of the gradients and from all tokens' log-probabilities.

    Raises Refused when the batch has no advantage to learn from.
    """
    if not batch.advantages.any() and not request["klCoefficient"]:
        raise Refused(
            "every advantage of the batch is 0: its groups have no spread in reward, so there is nothing to learn"
        )
    started = time.monotonic()
    played = of_batch(backend, batch, request, ranks)
    metrics = _updates(backend, optimizer, batch, request, progress, ranks, played)
    if metrics["skipped"] and backend.precision == "f16":
        overflows = metrics["overflows"] + 1

        def again() -> dict[str, Any]:
            checkpointed = request | {"gradientCheckpointing": True}
            return _updates(backend, optimizer, batch, checkpointed, progress, ranks, played)

        metrics = in_bf16(backend, optimizer.scale, again, lambda metrics: not metrics["skipped"])
        metrics["overflows"] = overflows
    return metrics | {"played": played.metrics, "seconds": {"update": time.monotonic() - started}}


def _updates(
    backend: Backend,
    optimizer: Optimizer,
    batch: Batch,
    request: dict[str, Any],
    progress: Progress,
    ranks: Ranks,
    played: Version,
) -> dict[str, Any]:
    """One attempt at all updates. Where it fails, weights, optimizer and random state are as before."""
    settings = settings_of(request)
    dealt = deal(batch, request.get("minibatches", 1), request.get("seed", 0))
    minibatches = [_minibatch(backend, trajectories, request, ranks) for trajectories in dealt]
    packs = [pack for minibatch in minibatches for pack in minibatch.packs]
    epochs = request.get("epochs", 1)
    own = [len(minibatch.own) for minibatch in minibatches]
    rows = sum(own) * (epochs + (1 if settings.kl_coefficient else 0)) + sum(own[1:])
    scales = _scales(batch, minibatches, settings, request)
    passes = _Passes(backend, batch, settings, scales, _ticker(progress, rows), ranks, played)
    backend.checkpointing(request["gradientCheckpointing"])
    before = optimizer.snapshot()
    optimizer.clear()
    check_trained(backend.model, optimizer.parameters)
    probe_metrics: dict[str, Any] = {"probeKl": None}
    as_played = rounding_of(backend, request)
    try:
        with as_played():
            # On each rank: the others would only wait for it.
            probe = ranks.together("probe", lambda: Probe(backend, batch))
            if settings.kl_coefficient:
                passes.score_base(minibatches)
            if len(minibatches) > 1:
                passes.score_old(minibatches[1:])
        applied, before_metrics = _apply(optimizer, passes, minibatches * epochs, request, as_played, ranks)
        if applied.skipped:
            optimizer.restore(before)
        else:
            with as_played():
                probe_metrics["probe"], probe_metrics["probeKl"] = ranks.together("probed", probe.finished)
    except BaseException as error:
        # A lack of memory, for example: the next attempt must start from the same state, and restoring needs memory
        # too.
        forget(error)
        optimizer.restore(before)
        raise
    finally:
        optimizer.clear()
    padding = sum(backend.padding(pack) for pack in packs)
    return (
        probe_metrics
        | before_metrics
        | applied.metrics()
        | {
            "groups": batch.groups,
            "trajectories": batch.rollouts,
            "sequences": len(batch.trajectories),
            "tokens": {
                "total": batch.tokens,
                "sampled": batch.sampled_tokens,
                "computed": sum(len(pack.ids) for pack in packs) + padding,
                "padding": padding,
            },
            "microBatches": len(packs),
            "learningRate": request["learningRate"],
        }
    )


def _minibatch(backend: Backend, trajectories: list[Trajectory], request: dict[str, Any], ranks: Ranks) -> _MiniBatch:
    packs, own = ranks.plan(backend, trajectories, request["microBatchTokens"])
    check_rows(packs, trajectories)
    slots = torch.cat([pack.slots for pack in packs])
    return _MiniBatch(packs, own, slots, len({trajectory.member for trajectory in trajectories}))


def _scales(
    batch: Batch, minibatches: list[_MiniBatch], settings: loss.LossSettings, request: dict[str, Any]
) -> torch.Tensor:
    """Factor of each token's loss in its mini-batch's (loss.token_scale), [S]."""
    scales = torch.empty(batch.sampled_tokens)
    for minibatch in minibatches:
        slots = minibatch.slots
        # Rollouts of the step that are not in the batch are distributed like those that are.
        played = loss.Played(
            rollouts=request.get("rollouts", batch.rollouts) * (minibatch.rollouts / batch.rollouts),
            tokens=request.get("sampledTokens", batch.sampled_tokens) * len(slots) / batch.sampled_tokens,
        )
        constant = request.get("maxCompletionTokens")
        scales[slots] = loss.token_scale(settings.objective, batch.member[slots], played, constant)
    return scales


def _ticker(progress: Progress, rows: int) -> Callable[[], None]:
    """Reports one row more as done. Repeated rows are not counted twice."""
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        progress("update", min(done, rows), rows)

    return tick


def _apply(
    optimizer: Optimizer,
    passes: "_Passes",
    minibatches: list[_MiniBatch],
    request: dict[str, Any],
    as_played: Policy,
    ranks: Ranks,
) -> tuple[_Applied, dict[str, Any]]:
    """Updates by each mini-batch in turn, until a loss or gradient is not finite. Returns the metrics of π_old too."""
    applied = _Applied()
    before_metrics: dict[str, Any] = {}
    for number, minibatch in enumerate(minibatches):
        first = number == 0
        with as_played():
            value, norm, overflows = _gradient(optimizer, passes, minibatch, first, request["maxGradNorm"], ranks)
        applied.overflows += overflows
        applied.losses.append(value)
        applied.norms.append(norm)
        if first:
            passes.keep_as_old(minibatch.slots)
            before_metrics = passes.before_metrics()
        below, above = passes.clipped(minibatch.slots)
        applied.clipped_below += below
        applied.clipped_above += above
        applied.tokens += len(minibatch.slots)
        if not (math.isfinite(value) and math.isfinite(norm)):
            applied.skipped = "gradient" if math.isfinite(value) else "loss"
            break
        optimizer.update(request["learningRate"])
        optimizer.clear()
        ranks.check_same(optimizer.tensors)
    return applied, before_metrics


def _gradient(
    optimizer: Optimizer, passes: "_Passes", minibatch: _MiniBatch, first: bool, max_norm: float, ranks: Ranks
) -> tuple[float, float, int]:
    """The gradient of a mini-batch's loss, clipped: (loss, norm before clipping, overflows).

    Computed again at a lower loss scale while it overflows in f16, and where the backend asks for it.
    """
    overflows = 0

    def rows() -> float:
        # Of the device: the host waits for it once, not in each row.
        return float(sum(passes.accumulate(pack, first, optimizer.scale.value) for pack in minibatch.own))

    while True:
        try:
            value = ranks.together("rows", rows)
        except Repeat:
            optimizer.clear()
            continue
        value = ranks.add_up(optimizer.parameters, value)
        norm = optimizer.clip(max_norm)
        if not optimizer.scale.repeats(value, norm):
            passes.collect(minibatch, first)
            return value, norm, overflows
        overflows += 1
        optimizer.clear()


class _Passes:
    """Forward and backward passes over rows of a batch, and what they tell about its tokens."""

    def __init__(
        self,
        backend: Backend,
        batch: Batch,
        settings: loss.LossSettings,
        scales: torch.Tensor,
        tick: Callable[[], None],
        ranks: Ranks,
        played: Version,
    ) -> None:
        """`tick` is called after each row."""
        self._backend = backend
        self._ranks = ranks
        self._played = played
        # Where rows are computed, so is the loss of their tokens.
        self._device = backend.device
        self._batch = batch.on(self._device)
        self._settings = settings
        self._scales = on_device(scales, self._device)
        self._tick = tick
        unknown = torch.full((batch.sampled_tokens,), float("nan"), device=self._device)
        self._tokens = _Tokens(unknown.clone(), unknown.clone(), unknown.clone(), None)

    def score_base(self, minibatches: list[_MiniBatch]) -> None:
        with self._backend.base_policy():
            self._tokens.base, _ = self._score(minibatches)

    def score_old(self, minibatches: list[_MiniBatch]) -> None:
        """The policy is the one before any update."""
        slots = on_device(torch.cat([minibatch.slots for minibatch in minibatches]), self._device)
        logprobs, entropy = self._score(minibatches)
        self._tokens.old[slots], self._tokens.entropy[slots] = logprobs[slots], entropy[slots]

    def keep_as_old(self, slots: torch.Tensor) -> None:
        """The latest pass has computed π_old: no update came before it."""
        slots = on_device(slots, self._device)
        self._tokens.old[slots] = self._tokens.new[slots]

    def collect(self, minibatch: _MiniBatch, first: bool) -> None:
        """Completes what the latest pass tells about the tokens of a mini-batch, of which other ranks computed some."""
        tokens = self._tokens
        self._ranks.collect([tokens.new, *([tokens.entropy] if first else [])], minibatch.own, minibatch.slots)

    def clipped(self, slots: torch.Tensor) -> tuple[int, int]:
        """How many of the tokens the lower and the upper bound of the ratio acted on in the latest pass."""
        slots = on_device(slots, self._device)
        tokens = self._loss_tokens(slots, self._tokens.new[slots])
        below, above = loss.bounded(tokens, self._settings.objective)
        return int(below.sum()), int(above.sum())

    def accumulate(self, pack: Pack, first: bool, scale: float) -> torch.Tensor:
        """Forward and backward of one row; adds to the gradients. Returns the row's share of the loss, on the device.

        `first`: no update came before, so the policy is π_old. `scale`: factor of the gradients (LossScale).
        """
        tokens = self._tokens
        hidden = self._backend.hidden(pack)
        slots = on_device(pack.slots, self._device)
        value = torch.zeros(())

        def loss_gradient(logprobs: torch.Tensor) -> torch.Tensor:
            nonlocal value
            with torch.enable_grad():
                new = logprobs.detach().requires_grad_(True)
                if first:
                    tokens.old[slots] = new.detach()
                losses = loss.policy_loss(self._loss_tokens(slots, new), self._settings)
                value = (losses * self._scales[slots]).sum()
                (derivative,) = torch.autograd.grad(value, new)
            return derivative * scale

        temperature = self._batch.temperature
        allowed = head.allowed_of(pack, self._batch, self._device)
        # The values of a quantised output layer are not held during the backward pass.
        scores = head.score(
            hidden.detach(),
            self._backend.output_weight(),
            pack.sources,
            pack.targets,
            temperature,
            loss_gradient,
            allowed=allowed,
        )
        self._backend.backward(hidden, scores.gradient)
        tokens.new[slots] = scores.logprobs
        if first:
            tokens.entropy[slots] = scores.entropy
        self._tick()
        return value.detach()

    def before_metrics(self) -> dict[str, Any]:
        """Metrics of π_old. NaN log-probabilities (the loss is then NaN too) are left out."""
        # Dozens of small sums, once for each step: on the CPU.
        batch, tokens = self._batch.on(CPU), self._tokens
        every, base = tokens.old.cpu(), None if tokens.base is None else tokens.base.cpu()
        known = every.isfinite()
        old, rollout = every[known], batch.rollout[known]
        if not len(old):
            old = rollout = torch.zeros(1)
        base_kl = math.nan if base is None else loss.k3(every, base).double().nanmean().item()
        entropy = tokens.entropy.cpu().double().nanmean().nan_to_num().item()
        return self._played.distances(every, batch.rollout) | {
            "klBase": base_kl if math.isfinite(base_kl) else None,
            "entropy": entropy,
            "importance": importance_metrics(every, batch.rollout, batch.owner, self._settings.importance)
            | {"ess": effective_sample_size(old, rollout)},
        }

    def _loss_tokens(self, slots: torch.Tensor, new: torch.Tensor) -> loss.Tokens:
        tokens, batch = self._tokens, self._batch
        return loss.Tokens(
            new=new,
            old=tokens.old[slots],
            rollout=batch.rollout[slots],
            advantages=batch.advantages[slots],
            owner=batch.owner[slots],
            base=None if tokens.base is None else tokens.base[slots],
        )

    def _score(self, minibatches: list[_MiniBatch]) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities and entropies of the mini-batches' tokens, [S of the batch]; other entries are not set."""
        own = [pack for minibatch in minibatches for pack in minibatch.own]
        found = self._ranks.together("scores", lambda: self._score_rows(own))
        self._ranks.collect(found, own, torch.cat([minibatch.slots for minibatch in minibatches]))
        return found

    @torch.no_grad()
    def _score_rows(self, packs: list[Pack]) -> tuple[torch.Tensor, torch.Tensor]:
        backend, batch = self._backend, self._batch
        logprobs, entropy = (torch.empty(batch.sampled_tokens, device=self._device) for _ in range(2))
        for pack in packs:
            hidden = backend.hidden(pack)
            scores = head.score(
                hidden,
                backend.output_weight(),
                pack.sources,
                pack.targets,
                batch.temperature,
                allowed=head.allowed_of(pack, batch, self._device),
            )
            slots = on_device(pack.slots, self._device)
            logprobs[slots], entropy[slots] = scores.logprobs, scores.entropy
            self._tick()
        return logprobs, entropy


def _finite_mean(values: list[float]) -> float | None:
    mean = sum(values) / len(values)
    return mean if math.isfinite(mean) else None
