"""A small step made of few tokens of the batch, computed by the code of updates and plainly (plain.py): both must give
the same log-probabilities, the same loss, and for each trained parameter the same gradient.

Whatever computes or adds up gradients in another way than the objective says is seen before it is trained with: the
layers, rows, masks and positions, the output layer, importance weights, bounds, KL, divisors, the scale of f16. The
adapter has noise as its B meanwhile: of a new one A has no gradient. All is as before afterwards.

Both are computed in f32 whatever updates multiply in. Rounding to 16 bits alone moves these gradients by more than a
fault would (with the noise in its adapters those of Qwen2.5-0.5B by up to twice their length in bf16). That of bf16 is
checked by itself where a CPU chooses it: cpu_bf16.py.

It is repeated, with other tokens, as often as costs little beside the steps.
"""

import functools
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from . import plain
from .backend import Backend
from .batch import Batch, BatchSequence
from .check_clock import timed
from .errors import Refused
from .minibatches import minibatches_of, scales_of
from .optimizer import Optimizer
from .packing import plan_trajectories
from .packing_check import untouched
from .passes import Passes
from .ranks import ALONE
from .request import StepRequest
from .update import gradient
from .version import Version

PROMPT, OWN = 6, 10
"""Tokens of a rollout before the first that was sampled, and from there on."""
SHARE = 0.002
"""Of the time of steps that it may take: after the first it waits until they took so long."""
LOGPROBS = 1e-3
"""Mean difference in nats up to which log-probabilities count as equal. Random models of ten architectures, the tiny
one and two pretrained ones were at 2e-5, Qwen2.5-0.5B below 5e-5."""
SLOPES = 0.01
"""Distance from 1 of the slope of a gradient on the plain one, up to which they count as equal (the same models'
parameters were at 1e-4); half a gradient has 0.5. Also of the loss, relative."""
APART = 0.01
"""What of the gradient of all parameters together is in another direction, as a share of it (7e-5)."""
CLEAR = 0.3
"""Distance of a ratio's logarithm from a bound."""
SMALL = 1e-3
"""What has less than this share of the whole gradient is not compared by itself: it is rounding."""


class Rehearsals:
    """Those of a process."""

    def __init__(self) -> None:
        self._count = 0
        self._took = self._worked = 0.0

    def worked(self, seconds: float) -> None:
        """A step took so long."""
        self._worked += seconds

    def before(self, backend: Backend, optimizer: Optimizer, batch: Batch, request: StepRequest) -> None:
        """Before an update of the batch: a rehearsal, where one is due. Raises Refused where its results differ."""
        # No card has measured the limits; and Unsloth replaces the attention of transformers, with which to compare.
        if backend.device.type != "cpu" or backend.name != "peft":
            return
        if self._count and self._worked * SHARE < self._took:
            return
        started = time.monotonic()
        rehearse(backend, optimizer, batch, request, self._count)
        self._count += 1
        self._took, self._worked = time.monotonic() - started, 0.0


@timed
def rehearse(backend: Backend, optimizer: Optimizer, batch: Batch, request: StepRequest, number: int) -> None:
    """`number`: of the rehearsals of this process, each of which has other tokens."""
    small = small_batch(batch, number)
    request = replace(
        request,
        epochs=1,
        minibatches=1,
        rollouts=None if request.rollouts is None else small.rollouts + 1,
        sampled_tokens=None if request.sampled_tokens is None else small.sampled_tokens + 5,
        # Two rows: one of each group.
        micro_batch_tokens=max(len(one.ids) for one in plan_trajectories(small.sequences[:2], 10**6)),
    )
    scale = optimizer.scale.state()
    with untouched(backend), in_f32(backend):
        try:
            _compare(backend, optimizer, small, request)
        finally:
            optimizer.scale.load(scale)
            optimizer.clear()


class _InF32(torch.autograd.Function):
    """A product with a frozen matrix of 16 bits, which is converted for each pass and not kept."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        ctx.weight = weight
        return torch.nn.functional.linear(x, weight.float(), None if bias is None else bias.float())

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return slopes[0] @ ctx.weight.float(), None, None


def _product(linear: torch.nn.Linear, x: torch.Tensor) -> torch.Tensor:
    return _InF32.apply(x, linear.weight, linear.bias)


@contextmanager
def in_f32(backend: Backend) -> Iterator[None]:
    precision = backend.precision
    linear = [module for module in backend.model.modules() if isinstance(module, torch.nn.Linear)]
    halves = [one for one in linear if one.weight.dtype in (torch.float16, torch.bfloat16)]
    backend.compute_in("f32")
    for one in halves:
        one.forward = functools.partial(_product, one)
    try:
        yield
    finally:
        for one in halves:
            del one.forward
        backend.compute_in(precision)


def small_batch(batch: Batch, number: int) -> Batch:
    """Of two rollouts the last tokens before the first that was sampled, and the first from there on, each in a group
    with a rollout that leaves it after half of its tokens. Advantages are made up; log-probabilities are set by who
    knows the policy."""
    picked = [batch.sequences[(2 * number + one) % len(batch.sequences)] for one in range(2)]
    trajectories: list[BatchSequence] = []
    slot = 0
    for group, one in enumerate(picked):
        start = int(one.sampled.nonzero()[0])
        first = max(0, start - PROMPT)
        ids = one.ids[first : start + OWN]
        if group == 1:
            # The groups differ in their first token, whatever the prompts: a row holds one of them.
            ids = torch.cat(((trajectories[0].ids[:1] == 0).to(ids.dtype), ids[1:]))
        sampled = one.sampled[first : start + OWN].clone()
        prompt = start - first
        half = prompt + max(1, (len(ids) - prompt) // 2)
        other = torch.cat((ids[:half], ids[half:].flip(0)))
        allowed = None if one.allowed is None else one.allowed[first : start + OWN]
        for branch, sets in ((ids, allowed), (other, None)):
            trajectories.append(BatchSequence(branch, sampled, group, prompt, slot, len(trajectories), sets))
            slot += int(sampled.sum())
    counts = torch.tensor([int(one.sampled.sum()) for one in trajectories])
    owner = torch.repeat_interleave(torch.arange(len(trajectories)), counts)
    return Batch(
        trajectories,
        torch.zeros(slot),
        torch.tensor([1.0, -0.5, 0.75, -1.25])[owner],
        owner,
        owner,
        batch.temperature,
        batch.sets,
    )


def _compare(backend: Backend, optimizer: Optimizer, small: Batch, request: StepRequest) -> None:
    parameters = optimizer.parameters
    names = {id(one): name for name, one in backend.model.named_parameters()}
    optimizer.clear()
    # Layers that are computed again in the backward pass would have the rows' attention there.
    backend.checkpointing(False)
    wanted = plain.logprobs(backend, small)
    now = torch.cat([one.detach() for one in wanted]).float().cpu()
    old = now - _log_ratios(small, request)
    small = replace(small, rollout=old - _log_weights(small, request))
    base = _base(backend, small, request, now)
    parts = small.owner.bincount().tolist()
    before, first = (every.to(backend.device).split(parts) for every in (old, base))
    value = plain.loss(small, wanted, before, first, request)
    (value * optimizer.scale.value).backward()
    gradients = [None if one.grad is None else one.grad.detach() / optimizer.scale.value for one in parameters]
    optimizer.clear()
    norm = sum(float(one.square().sum()) for one in gradients if one is not None) ** 0.5
    if not (now.isfinite().all() and 0 < norm < math.inf):
        # All was masked, or numbers are beyond f32, which an update refuses by itself.
        return

    backend.checkpointing(request.gradient_checkpointing)
    minibatches = minibatches_of(backend, small, request, ALONE)
    passes = Passes(backend, small, request, scales_of(small, minibatches, request), lambda: None, ALONE, Version())
    if request.kl_coefficient:
        passes.score_base(minibatches)
    passes.begin_after(old)
    # Bounded to a half.
    found, length, _ = gradient(optimizer, passes, minibatches[0], False, norm / 2, ALONE)
    # As `clip_grad_norm_` does, whose divisor is not 0.
    shortened = length / 2 / (norm + 1e-6)
    _close("log-probabilities", float((passes.latest() - now).abs().mean()), LOGPROBS)
    bounded = [None if one is None else one * shortened for one in gradients]
    _close("the gradient's norm", abs(length / norm - 1), SLOPES)
    _same_gradients(parameters, bounded, names)
    _close("loss", abs(found - value.item()) / max(abs(value.item()), 0.1), SLOPES)


def _log_ratios(small: Batch, request: StepRequest) -> torch.Tensor:
    """Logarithms of new/old, [S]: below, within and above the bounds, never near them, where rounding would decide."""
    objective = request.objective
    low = math.log(1 - objective.clip_low) if 0 < (objective.clip_low or 0) < 1 else -0.5
    high = math.log(1 + objective.clip_high)
    below, above = low - CLEAR, high + CLEAR
    within = (low + high) / 2 if high - low > CLEAR else above
    # With advantages of 1, -0.5, 0.75 and -1.25 two trajectories lose their gradient, and two keep it.
    if objective.ratio == "sequence":
        return torch.tensor([above, below, below, above])[small.owner]
    return torch.tensor([within, above, within, below])[torch.arange(small.sampled_tokens) % 4]


def _log_weights(small: Batch, request: StepRequest) -> torch.Tensor:
    """Logarithms of the importance weights before they are bounded, [S]; as `_log_ratios`."""
    importance = request.importance
    high = math.log(importance.high)
    low = math.log(importance.low) if importance.low > 0 else high - 1
    within, above, below = (low + high) / 2, high + CLEAR, low - CLEAR
    if importance.level == "sequence":
        counts = small.owner.bincount()
        return (torch.tensor([within, above, below, within]) / counts)[small.owner]
    return torch.tensor([within, within, above, below, within])[torch.arange(small.sampled_tokens) % 5]


@torch.no_grad()
def _base(backend: Backend, small: Batch, request: StepRequest, now: torch.Tensor) -> torch.Tensor:
    """Log-probabilities under the base model, where they count."""
    if not request.kl_coefficient:
        return now
    with backend.base_policy():
        return torch.cat(plain.logprobs(backend, small)).float().cpu()


@torch.no_grad()
def _same_gradients(
    parameters: list[torch.nn.Parameter],
    plainly: list[torch.Tensor | None],
    names: dict[int, str],
) -> None:
    pairs = [
        [torch.zeros(()) if one is None else one.double().cpu().flatten() for one in (parameter.grad, wanted)]
        for parameter, wanted in zip(parameters, plainly, strict=True)
    ]
    whole = sum(float(wanted.square().sum()) for _, wanted in pairs)
    apart = sum(float((found - wanted).square().sum()) for found, wanted in pairs)
    for parameter, (found, wanted) in zip(parameters, pairs, strict=True):
        square = float(wanted.square().sum())
        if square > SMALL**2 * whole:
            slope = float((found * wanted).sum()) / square
            what = f"the gradient of {names[id(parameter)]}, {slope:.3g} times the plain one,"
            _close(what, abs(slope - 1), SLOPES)
    _close("the gradient", (apart / max(whole, 1e-300)) ** 0.5, APART)


def _close(what: str, much: float, most: float) -> None:
    # A comparison with NaN is false.
    if not much <= most:
        raise Refused(
            f"a small step, computed as updates are and plainly, differs: {what} (by {much:.2g}, limit {most:g})"
        )
