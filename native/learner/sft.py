"""Supervised learning of the sampled tokens: a warm start from the traces of an expert or a teacher."""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from . import head
from .backend import Backend, Repeat
from .batch import Batch, BatchSequence
from .device import on_device
from .errors import Refused
from .optimizer import Optimizer
from .packing import Pack
from .protocol import Progress
from .ranks import ALONE, Ranks
from .request import SftRequest
from .scaling import in_bf16


def rate(update: int, updates: int, peak: float, warmup: float) -> float:
    """Rises linearly over the first share `warmup` of all updates, then falls linearly towards 0. `update` from 0."""
    rising = max(1, round(updates * warmup))
    if update < rising:
        return peak * (update + 1) / rising
    return peak * (updates - update) / max(1, updates - rising)


def supervised(
    backend: Backend,
    optimizer: Optimizer,
    batch: Batch,
    request: SftRequest,
    progress: Progress,
    ranks: Ranks = ALONE,
) -> dict[str, Any]:
    """Runs the `epochs` over the batch in random order, with `update_trajectories` per update. Returns the metrics.

    The loss is -log p of each sampled token, weighted by its trajectory's advantage (usually 1), over the update's
    tokens. Raises Refused when no update of the last epoch had a finite loss and gradient.
    """
    started = time.monotonic()
    backend.checkpointing(request.gradient_checkpointing)
    size, epochs = request.update_trajectories, request.epochs
    rollouts: dict[int, list[BatchSequence]] = {}
    for sequence in batch.sequences:
        rollouts.setdefault(sequence.of_rollout, []).append(sequence)
    every = list(rollouts.values())
    updates = epochs * math.ceil(len(every) / size)
    losses: list[float] = []
    """A token's, of each update in order."""
    computed = padding = done = skipped = overflows = 0

    def tick() -> None:
        """Called before the first row and after each: one update may take longer than hone waits for a sign."""
        progress("update", done, updates)

    tick()
    for _ in range(epochs):
        order = torch.randperm(len(every)).tolist()
        taken = False
        for start in range(0, len(order), size):
            chosen = [sequence for index in order[start : start + size] for sequence in every[index]]
            one = _gradients(backend, optimizer, batch, chosen, request, tick, ranks)
            computed, padding = computed + one.positions, padding + one.padding
            overflows += one.overflows
            if one.finite:
                optimizer.update(rate(done, updates, request.learning_rate, request.warmup))
                ranks.check_same(optimizer.tensors)
                losses.append(one.value / max(1, one.count))
                taken = True
            else:
                skipped += 1
            done += 1
            tick()
    optimizer.clear()
    if not taken:
        raise Refused(
            f"loss or gradient was not finite in {skipped} of {updates} updates, in the last epoch in all; "
            "give a lower --learning-rate"
        )
    return {
        "updates": updates - skipped,
        "skipped": skipped,
        "overflows": overflows,
        "loss": {"first": losses[0], "last": losses[-1]},
        "trajectories": batch.rollouts,
        "tokens": {"total": batch.tokens, "sampled": batch.sampled_tokens, "computed": computed, "padding": padding},
        "seconds": {"update": time.monotonic() - started},
    }


@dataclass
class _Gradients:
    """Sums of one update's gradients."""

    value: float
    """Summed -log p."""
    count: int
    """Sampled tokens."""
    positions: int
    padding: int
    """For the computed positions."""
    norm: float
    overflows: int = 0

    @property
    def finite(self) -> bool:
        return math.isfinite(self.value) and math.isfinite(self.norm)


def _gradients(
    backend: Backend,
    optimizer: Optimizer,
    batch: Batch,
    chosen: list[BatchSequence],
    request: SftRequest,
    tick: Callable[[], None],
    ranks: Ranks,
) -> _Gradients:
    """Recomputed at a lower scale where f16 overflows, or in bf16: see scaling.py."""
    overflows = 0

    def once() -> _Gradients:
        packs, own = ranks.plan(backend, chosen, request.micro_batch_tokens)
        count = sum(len(pack.slots) for pack in packs)

        def rows() -> float:
            return _accumulate(backend, batch, own, count, optimizer.scale.value, tick)

        while True:
            optimizer.clear()
            with suppress(Repeat):
                value = ranks.together("rows", rows)
                break
        value = ranks.add_up(optimizer.parameters, value)
        padding = sum(backend.padding(pack) for pack in packs)
        positions = sum(len(pack.ids) for pack in packs) + padding
        return _Gradients(value, count, positions, padding, optimizer.clip(request.max_grad_norm))

    def again() -> _Gradients:
        backend.checkpointing(True)
        try:
            return once()
        finally:
            backend.checkpointing(request.gradient_checkpointing)

    one = once()
    while optimizer.scale.repeats(one.value, one.norm):
        overflows += 1
        one = once()
    if not one.finite and backend.precision == "f16":
        overflows += 1
        one = in_bf16(backend, optimizer.scale, again, lambda one: one.finite)
    one.overflows = overflows
    return one


def _accumulate(
    backend: Backend, batch: Batch, packs: list[Pack], count: int, scale: float, tick: Callable[[], None]
) -> float:
    """Adds the gradients of rows of an update that has `count` sampled tokens, times `scale`. Returns summed -log p."""
    total: Any = 0.0
    for pack in packs:
        hidden = backend.hidden(pack)
        weights = on_device(batch.advantages[pack.slots], hidden.device)
        scores = head.score(
            hidden.detach(),
            backend.output_weight(),
            pack.sources,
            pack.targets,
            1.0,
            lambda _, weights=weights: -weights * scale / max(1, count),
        )
        backend.backward(hidden, scores.gradient)
        # Of the device: the host does not wait for each row.
        total = total - (scores.logprobs * weights).sum()
        tick()
    return float(total)
