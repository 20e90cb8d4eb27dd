"""The policy as an engine plays it that keeps adapters in 16 bits.

vLLM, where it computes in 16 bits, rounds both factors to its type, multiplies B by alpha / rank and rounds again
(lora/lora_weights.py, `optimize`); its kernels add an adapter's output to a layer's that is rounded already
(lora/ops/triton_ops/lora_expand_op.py). hone's own graph on a GPU has A as rows of the weights' matrices, and B in f32.
Updates compute with these numbers, so that π_old is the policy that was played. The gradient at them is applied to the
learner's own factors, which stay in f32 (straight-through estimation: Bengio et al. 2013, arXiv:1308.3432): steps that
are smaller than a rounding add up.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from .backend import Backend
from .copies import copies, put
from .errors import Refused
from .fused import Order
from .fused_weights import ADAPTER

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
"""The types of 16 bits, by their names in requests; with "-a" behind it the type of A alone."""
Policy = Callable[[], AbstractContextManager[None]]


def rounding(backend: Backend, kind: str) -> Policy:
    """Makes contexts in which the adapter has the numbers that an engine with adapters of `kind` has; they nest.

    Raises Refused for an unknown kind.
    """
    if kind == "f32":
        return _unchanged
    name = kind.removesuffix("-a")
    if name not in TYPES:
        raise Refused(f"adapterType: {kind} is not accepted; there are f32, {', '.join(TYPES)}")

    @contextmanager
    def rounded() -> Iterator[None]:
        own = list(_factors(backend.model))
        factors = [factor for a, b, _ in own for factor in (a, b)]
        present, apart = copies(factors), Order.apart
        try:
            _round(own, TYPES[name], both=kind == name)
            Order.apart = kind == name
            yield
        finally:
            Order.apart = apart
            put(factors, present)

    return rounded


def within(policy: Policy, rounded: Policy) -> Policy:
    """The policy of the first as the second has it."""

    @contextmanager
    def both() -> Iterator[None]:
        with policy(), rounded():
            yield

    return both


@contextmanager
def _unchanged() -> Iterator[None]:
    yield


def _factors(model: Any) -> Iterator[tuple[torch.nn.Parameter, torch.nn.Parameter, float]]:
    """A, B and alpha / rank of each linear layer with an adapter."""
    for module in model.modules():
        if ADAPTER in getattr(module, "lora_A", ()):
            yield module.lora_A[ADAPTER].weight, module.lora_B[ADAPTER].weight, float(module.scaling[ADAPTER])


@torch.no_grad()
def _round(
    factors: list[tuple[torch.nn.Parameter, torch.nn.Parameter, float]], dtype: torch.dtype, *, both: bool
) -> None:
    for a, b, scaling in factors:
        a.copy_(a.to(dtype))
        if not both:
            continue
        scaled = b.to(dtype) * scaling
        b.copy_(scaled.float() / scaling)
