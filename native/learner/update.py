"""The policy-gradient updates of a step. In this order:

1. Which policy played the batch, where an earlier one may have (version.py).
2. The batch's groups are dealt to mini-batches, and each one's trajectories laid in rows (minibatches.py).
3. Passes without gradient: the probe, the base model where KL counts, π_old of all mini-batches but the first.
4. For each epoch and mini-batch: forward and backward over its rows (passes.py), the ranks' gradients added up and
   clipped, Adam. The first update's own pass gives π_old of its mini-batch.
5. Tokens, updates and π_old are checked, and the probe is computed again. Where a loss or gradient was not finite, all
   is as before 3 instead.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from .as_played import Policy
from .backend import Backend, Repeat
from .batch import Batch
from .errors import Refused
from .in_use import InForce
from .memory import forget
from .minibatches import MiniBatch, minibatches_of, scales_of
from .optimizer import Optimizer
from .passes import Passes
from .probe import Probe
from .protocol import Progress
from .ranks import ALONE, Ranks
from .request import StepRequest
from .scaling import in_bf16
from .update_check import check_base, check_clear, check_count, check_scales, check_trained
from .version import Version, as_engine, of_batch


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


def policy_update(
    backend: Backend,
    optimizer: Optimizer,
    batch: Batch,
    request: StepRequest,
    progress: Progress,
    ranks: Ranks = ALONE,
    in_force: InForce | None = None,
) -> dict[str, Any]:
    """Applies all updates, or none when a loss or gradient of one is not finite. Returns the metrics; if the updates
    were applied, they include the `probe`, and under `before` what the optimizer restores if they cannot be saved.

    A gradient that overflows in f16 is recomputed at a lower scale. Where that does not help, because activations
    exceed f16's range, everything is repeated in bf16, and stays in bf16 if that helps.

    π_old is the policy before the first update.

    Several ranks compute the same update: each the rows that are its own, with the normaliser of the whole step, and
    everything that follows from the sum of the gradients and from all tokens' log-probabilities.

    Raises Refused when the batch has no advantage to learn from, and where it would compute with another adapter than
    the one `in_force`.
    """
    if not batch.advantages.any() and not request.kl_coefficient:
        raise Refused(
            "every advantage of the batch is 0: its groups have no spread in reward, so there is nothing to learn"
        )
    started = time.monotonic()
    played = of_batch(backend, batch, request, ranks)
    metrics = _updates(backend, optimizer, batch, request, progress, ranks, played, in_force)
    if metrics["skipped"] and backend.precision == "f16":
        overflows = metrics["overflows"] + 1

        def again() -> dict[str, Any]:
            checkpointed = replace(request, gradient_checkpointing=True)
            return _updates(backend, optimizer, batch, checkpointed, progress, ranks, played, in_force)

        metrics = in_bf16(backend, optimizer.scale, again, lambda metrics: not metrics["skipped"])
        metrics["overflows"] = overflows
    return metrics | {"seconds": {"update": time.monotonic() - started}}


def _updates(
    backend: Backend,
    optimizer: Optimizer,
    batch: Batch,
    request: StepRequest,
    progress: Progress,
    ranks: Ranks,
    played: Version,
    in_force: InForce | None,
) -> dict[str, Any]:
    """One attempt at all updates. Where it fails, weights, optimizer and random state are as before."""
    minibatches = minibatches_of(backend, batch, request, ranks)
    packs = [pack for minibatch in minibatches for pack in minibatch.packs]
    own = [len(minibatch.own) for minibatch in minibatches]
    rows = sum(own) * (request.epochs + (1 if request.kl_coefficient else 0)) + sum(own[1:])
    scales = scales_of(batch, minibatches, request)
    check_scales(scales, batch.of_rollout, [minibatch.slots for minibatch in minibatches], request)
    passes = Passes(backend, batch, request, scales, _ticker(progress, rows), ranks, played)
    backend.checkpointing(request.gradient_checkpointing)
    before = optimizer.snapshot()
    optimizer.clear()
    check_trained(backend.model, optimizer.parameters)
    probe_metrics: dict[str, Any] = {"probeKl": None}
    as_played = as_engine(backend, request)
    try:
        with as_played():
            types = ranks.together("adapter", lambda: in_force and in_force.types())
            # On each rank: the others would only wait for it.
            probe = ranks.together("probe", lambda: Probe(backend, batch))
            check_base(backend.model, probe.is_base)
            if request.kl_coefficient:
                passes.score_base(minibatches)
            if len(minibatches) > 1:
                passes.score_old(minibatches[1:])
        applied, before_metrics = _apply(optimizer, passes, minibatches * request.epochs, request, as_played, ranks)
        if applied.skipped:
            optimizer.restore(before)
        else:
            passes.check_tokens(request.epochs)
            passes.check_moved(request.learning_rate, applied.norms[0])
            passes.check_apart(probe)
            check_count(optimizer.updates - before["state"]["updates"], len(minibatches) * request.epochs)
            with as_played():
                probe_metrics["probe"], probe_metrics["probeKl"] = ranks.together("probed", probe.finished)
            probe_metrics["before"] = before
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
            "sequences": len(batch.sequences),
            "tokens": {
                "total": batch.tokens,
                "sampled": batch.sampled_tokens,
                "computed": sum(len(pack.ids) for pack in packs) + padding,
                "padding": padding,
            },
            "microBatches": len(packs),
            "learningRate": request.learning_rate,
        }
        | ({"adapterTypes": types} if types else {})
    )


def _ticker(progress: Progress, rows: int) -> Callable[[], None]:
    """Reports that none of the rows is done, and then one more with each call. Repeated rows are not counted twice."""
    done = 0
    progress("update", 0, rows)

    def tick() -> None:
        nonlocal done
        done += 1
        progress("update", min(done, rows), rows)

    return tick


def _apply(
    optimizer: Optimizer,
    passes: Passes,
    minibatches: list[MiniBatch],
    request: StepRequest,
    as_played: Policy,
    ranks: Ranks,
) -> tuple[_Applied, dict[str, Any]]:
    """Updates by each mini-batch in turn, until a loss or gradient is not finite. Returns the metrics of π_old too."""
    applied = _Applied()
    before_metrics: dict[str, Any] = {}
    for number, minibatch in enumerate(minibatches):
        first = number == 0
        with as_played():
            value, norm, overflows = gradient(optimizer, passes, minibatch, first, request.max_grad_norm, ranks)
        applied.overflows += overflows
        applied.losses.append(value)
        applied.norms.append(norm)
        if first:
            passes.keep_as_old(minibatch.slots)
            passes.check_base()
            before_metrics = passes.before_metrics() | {"notes": passes.check_told() + passes.check_drawn()}
        below, above = passes.clipped(minibatch.slots)
        applied.clipped_below += below
        applied.clipped_above += above
        applied.tokens += len(minibatch.slots)
        if not (math.isfinite(value) and math.isfinite(norm)):
            applied.skipped = "gradient" if math.isfinite(value) else "loss"
            break
        optimizer.update(request.learning_rate)
        optimizer.clear()
        ranks.check_same(optimizer.tensors)
    return applied, before_metrics


def gradient(
    optimizer: Optimizer, passes: Passes, minibatch: MiniBatch, first: bool, max_norm: float, ranks: Ranks
) -> tuple[float, float, int]:
    """The gradient of a mini-batch's loss, clipped: (loss, norm before clipping, overflows).

    Computed again at a lower loss scale while it overflows in f16, and where the backend asks for it.
    """
    overflows = 0

    def rows() -> float:
        # Of the device: the host waits for it once, not in each row.
        return float(sum(passes.accumulate(pack, first, optimizer.scale.value) for pack in minibatch.own))

    while True:
        check_clear(optimizer.parameters)
        passes.begin_pass()
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


def _finite_mean(values: list[float]) -> float | None:
    mean = sum(values) / len(values)
    return mean if math.isfinite(mean) else None
