"""How far rounding alone moves a model's hidden states and gradients.

That depends on the model more than on the type: in bf16 another order of rounding moved single gradients of one trained
model by 5 %, of another by 26 %. So it is measured: blocks are computed again, with the output of each linear layer
disturbed by about one rounding. On a CPU fused layers differed from blocks by as much, or less: 0.3 to 1.2 times.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from .packing_check import Computed, Limits, computed_rows, difference

ROUNDING = {"bf16": 2.0**-9, "f16": 2.0**-12}
"""Largest relative error of one rounding."""
LEAST = {"f32": 1e-3, "bf16": 0.02, "f16": 0.005}
"""Limits for models that rounding hardly moves."""
TIMES = 3
"""On a card other ways round in other places too, such as in attention and activations."""
MOST = Limits(states=0.15, slopes=0.5)
"""A lost or misplaced gradient differs by about 1, whatever rounding does."""


def limits(backend: Any, rows: list[Any], wanted: Computed, learns: bool, precision: str | None = None) -> Limits:
    """Of differences from `wanted`, which is `rows` in one row as the backend computes it now, without a compiler.
    `precision`: that of the other computation, unless it is the same."""
    precision = precision or backend.precision
    least = LEAST[precision]
    if precision not in ROUNDING:
        return Limits(least, least)
    with _disturbed(backend, ROUNDING[precision]):
        found = computed_rows(backend, [rows], learns)
    states = difference(found.states, wanted.states)
    slopes = max((difference(one, wanted.slopes[name]) for name, one in found.slopes.items()), default=0.0)
    return Limits(min(max(least, TIMES * states), MOST.states), min(max(least, TIMES * slopes), MOST.slopes))


@contextmanager
def _disturbed(backend: Any, size: float) -> Iterator[None]:
    generator = torch.Generator(backend.device).manual_seed(0)

    def disturb(module: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        noise = torch.randn(output.shape, generator=generator, device=output.device)
        return (output.float() * (1 + size * noise)).to(output.dtype)

    layers = backend._causal.model.layers
    linear = [module for layer in layers for module in layer.modules() if isinstance(module, torch.nn.Linear)]
    hooks = [module.register_forward_hook(disturb) for module in linear]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
