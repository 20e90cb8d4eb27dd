"""bf16 products on a CPU that has instructions for them, where a trial finds that they are those of f32, rounded.

The trial is of products, not of the model: hidden states and gradients of random tokens are moved so far by rounding
alone (single gradients of Qwen2.5-0.5B by 0.3 to 31 times their norm) that they say nothing. Those of text are near: of
two rollouts of the email task the gradient of all adapters differed by 0.04 of its norm, with adapters that change the
model much by 0.07, and a pass took 7.1 s in place of 11.9 with AVX512-BF16. No CPU with AMX has run it.

Products in 8 bits (each token and each output scaled by its greatest number) are hardly faster once their factors are
rounded, f16's without AVX512-FP16 slower than f32's (`yarn bench --only learner/product-types`). With Qwen2.5-0.5B and
a rollout of 166 tokens 8 bits moved log-probabilities by 0.14 nats on average and the gradient by 0.20 of its norm,
where bf16 moved them by 0.012 and 0.015.
"""

from collections.abc import Iterator
from typing import Any

import torch

from .quantised import QuantisedLinear, weights_in

LEAST_WEIGHTS = 100_000_000
"""In smaller models other work than products takes most of a step."""
ROWS = 45
"""Of a trial's products: no multiple of a tile's rows, so that what is left over is tried, too."""
MOST = 2.0**-6
"""Relative difference (root mean square) from f32. Rounding of both factors and of the result gives some 2^-8."""


def instructions() -> str | None:
    if torch.cpu._is_amx_tile_supported():
        return "AMX"
    return "AVX512-BF16" if torch.cpu._is_avx512_bf16_supported() else None


def settle(backend: Any) -> str | None:
    """Has a backend that computes in f32 compute in bf16, for good, where the frozen matrices of the first layer give
    the products and the products of slopes that they give in f32. Returns a note with the largest difference, None
    where there was no trial."""
    have = instructions()
    if have is None or weights_in(backend.model) < LEAST_WEIGHTS:
        return None
    much = max(differences(backend._causal.model.layers[0]))
    # A comparison with NaN is false.
    if not much <= MOST:
        return f"the learner computes in f32: products in bf16 by {have} differ by {much:.2g} (limit {MOST:.2g})"
    backend.compute_in("bf16", for_good=True)
    return f"the learner multiplies in bf16 by {have}: in a trial products differ by {much:.2g} from those of f32"


def differences(layer: torch.nn.Module) -> Iterator[float]:
    generator = torch.Generator().manual_seed(0)
    for linear in layer.modules():
        if not isinstance(linear, torch.nn.Linear) or linear.weight.requires_grad:
            continue
        x = torch.randn(ROWS, linear.in_features, generator=generator)
        slope = torch.randn(ROWS, linear.out_features, generator=generator)
        for found, wanted in zip(*(products(linear, x, slope, halved) for halved in (True, False)), strict=True):
            # max() would pass over a difference that is no number.
            yield float(torch.nan_to_num((found - wanted).norm() / wanted.norm(), nan=torch.inf))


def products(linear: Any, x: torch.Tensor, slope: torch.Tensor, halved: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Of the input [ROWS, in], and the input's slope for that of the output [ROWS, out]; added to zeros, as layers with
    an adapter add theirs to what it gives."""
    x = x.clone().requires_grad_()
    with torch.enable_grad(), torch.autocast("cpu", torch.bfloat16, enabled=halved):
        zeros = torch.zeros_like(slope, dtype=torch.bfloat16 if halved else torch.float32)
        if isinstance(linear, QuantisedLinear):
            output = linear.added_to(zeros, x.to(zeros.dtype)).float()
        else:
            output = torch.addmm(zeros, x, linear.weight.T).float()
    return output.detach(), torch.autograd.grad(output, x, slope)[0]
