"""Linear layers with an adapter of PEFT, in 16 bits: the sum of both products is rounded once.

PEFT rounds W x to 16 bits and adds what the adapter gives. What that changes by less than half a step of the rounded
number is then lost, of every number and each time, and so is most of a young adapter: with bf16 and a change of 1e-4 of
the output 94 % of it, with 1e-3 half. The learner would see a policy that hardly moves, and the engine, which sums in
f32, another one. Here the product with the frozen weights is added to what the adapter gives, in the product's own sum
of f32: as much as one number loses another wins. Beside the base model's, which is rounded in another sum, a new
adapter's outputs differ by rounding.
"""

from typing import Any

import torch
from peft.tuners.lora import Linear

from .fused import Order
from .fused_weights import ADAPTER, adapted
from .quantised import QuantisedLinear


def round_once(model: torch.nn.Module) -> None:
    """From now on, wherever autocast has the layers compute in 16 bits; elsewhere they compute as PEFT does."""
    for _, module in adapted(model):
        if type(module) is Linear:
            module.__class__ = _RoundedOnce


class _RoundedOnce(Linear):
    def forward(self, x: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        if Order.apart or self.disable_adapters or not torch.is_autocast_enabled(x.device.type):
            return super().forward(x)
        rows = x.flatten(0, -2)
        ranks = torch.nn.functional.linear(rows, self.lora_A[ADAPTER].weight)
        share = torch.nn.functional.linear(ranks, self.lora_B[ADAPTER].weight * self.scaling[ADAPTER])
        base = self.base_layer
        if isinstance(base, QuantisedLinear):
            output = base.added_to(share, rows.to(share.dtype))
        else:
            output = torch.addmm(share, rows, base.weight.T)
        # Behind what the adapter changes: a bias may be far above the product, and its step above the change.
        if base.bias is not None:
            output = output + base.bias.to(output.dtype)
        return output.unflatten(0, x.shape[:-1])
