"""The loss of an update the short way: each trajectory in a row of its own, by transformers' own attention, with all
logits and one graph through everything. It takes much memory, and no line of what updates are computed with but the
model's modules, with their adapters (adapted_linear.py).

The formulas are those of loss.py and importance.py, which name their sources, written down a second time.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from .backend import TYPES, Backend
from .batch import Batch, BatchSequence
from .request import StepRequest


def logprobs(backend: Backend, batch: Batch) -> list[torch.Tensor]:
    """Of the sampled tokens of each trajectory, with a graph if gradients are on."""
    device = backend.device
    # Filled up on the right: no position sees what is behind it.
    ids = torch.nn.utils.rnn.pad_sequence([one.ids for one in batch.sequences], batch_first=True).to(device)
    halves = torch.autocast(device.type, TYPES[backend.precision], enabled=backend.precision != "f32")
    with _own_attention(backend.model), halves:
        logits = backend.model(input_ids=ids, use_cache=False).logits
    scaled = logits.float() / batch.temperature
    return [_of_trajectory(rows, batch, one) for rows, one in zip(scaled, batch.sequences, strict=True)]


@contextmanager
def _own_attention(model: Any) -> Iterator[None]:
    """Attention and masks of transformers instead of those for rows."""
    configs = {id(one.config): one.config for one in model.modules() if hasattr(one, "config")}.values()
    before = [config._attn_implementation for config in configs]
    try:
        for config in configs:
            config._attn_implementation = "eager"
        yield
    finally:
        for config, name in zip(configs, before, strict=True):
            config._attn_implementation = name


def _of_trajectory(logits: torch.Tensor, batch: Batch, one: BatchSequence) -> torch.Tensor:
    """logits [T or more, vocabulary]"""
    found = []
    for place in one.sampled.nonzero().flatten().tolist():
        row = logits[place - 1]
        if one.allowed is not None and batch.sets is not None and one.allowed[place] >= 0:
            bits = [byte >> bit & 1 for byte in batch.sets[one.allowed[place]].tolist() for bit in range(8)]
            row = row.masked_fill(torch.tensor(bits[: len(row)], device=row.device) == 0, -torch.inf)
        found.append(row[one.ids[place]] - row.logsumexp(0))
    return torch.stack(found)


def loss(
    batch: Batch,
    new: Sequence[torch.Tensor],
    old: Sequence[torch.Tensor],
    base: Sequence[torch.Tensor],
    request: StepRequest,
) -> torch.Tensor:
    """Of an update from the whole batch. `new`, `old`, `base`: log-probabilities of each trajectory's tokens."""
    objective, importance = request.objective, request.importance
    low = -torch.inf if objective.clip_low is None else 1 - objective.clip_low
    rollouts = batch.rollouts if request.rollouts is None else request.rollouts
    tokens = sum(len(one) for one in new) if request.sampled_tokens is None else request.sampled_tokens
    total = torch.zeros((), device=new[0].device)
    for number, (now, before, first) in enumerate(zip(new, old, base, strict=True)):
        own = (batch.owner == number).to(now.device)
        advantage = batch.advantages.to(now.device)[own][0]
        gap = before - batch.rollout.to(now.device)[own]
        correction = (gap.sum().expand_as(gap) if importance.level == "sequence" else gap).exp()
        if importance.mode == "off":
            correction = torch.ones_like(gap)
        elif importance.masks:
            correction = correction * ((correction >= importance.low) & (correction <= importance.high))
        else:
            correction = correction.clip(importance.low, importance.high)
        log_ratio = now - before
        ratio = (log_ratio.mean().expand_as(log_ratio) if objective.ratio == "sequence" else log_ratio).exp()
        bounded = ratio.clip(low, 1 + objective.clip_high)
        if objective.surrogate == "clipped-ratio":
            gain = torch.minimum(ratio * advantage, bounded * advantage)
        else:
            gain = bounded.detach() * advantage * now
        kl = (first - now).exp() - (first - now) - 1
        losses = request.kl_coefficient * kl - gain * correction
        if objective.normaliser == "tokens":
            divisor = tokens
        elif objective.normaliser == "sequences":
            rollout = batch.sequences[number].of_rollout
            divisor = rollouts * int((batch.of_rollout == rollout).sum())
        else:
            divisor = rollouts * request.max_completion_tokens
        total = total + losses.sum() / divisor
    return total
