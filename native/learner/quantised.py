"""Layers whose frozen weights stay the file's quantised blocks, and are computed from them as they are needed.

A matrix is [rows, bytes of a row] of uint8. Its values exist during one product, in the forward pass and again in the
backward pass; products and values are those of a layer that holds the values. Products are operations of PyTorch of
their own: compiled code could otherwise keep the values from the one pass to the other.
"""

from typing import Any

import gguf
import torch

from . import ggml
from .block_types import VALUES, Kind
from .operations import differentiate, operation

PIECE = {"cpu": 2**17, "cuda": 2**26}
"""Weights whose values are computed at once: a CPU's caches hold what is made on the way to them; on a card there are
few launches."""

PLAIN = -1
"""In the place of a type: a matrix of numbers."""


def is_kept(kind: Kind) -> bool:
    """Whether weights of this type stay blocks. Those of the others are computed once, when they are read."""
    return kind in VALUES


def values(blocks: torch.Tensor, kind: Kind, dtype: torch.dtype) -> torch.Tensor:
    """blocks [rows, bytes] → [rows, width] in `dtype`, rounded once from f32."""
    return write_values(
        torch.empty(len(blocks), width_of(blocks, kind), dtype=dtype, device=blocks.device), blocks, kind
    )


@torch.no_grad()
def write_values(out: torch.Tensor, blocks: torch.Tensor, kind: Kind) -> torch.Tensor:
    """In `out` [rows, width], which is returned."""
    if ggml.write_to(out, blocks, kind):
        return out
    size = gguf.GGML_QUANT_SIZES[kind][1]
    rows = max(1, PIECE.get(blocks.device.type, PIECE["cpu"]) // out.shape[1])
    compute = _compiled.get(kind, VALUES[kind])
    for start in range(0, len(blocks), rows):
        part = out[start : start + rows]
        part.copy_(compute(blocks[start : start + rows].reshape(-1, size)).view(part.shape))
    return out


_compiled: dict[Kind, Any] = {}


def compile_values(options: dict[str, Any] | None) -> None:
    """How values are computed from now on: by code of torch.compile with these options, or, with None, op by op."""
    _compiled.clear()
    if options is not None:
        _compiled.update({kind: torch.compile(compute, **options) for kind, compute in VALUES.items()})


class QuantisedLinear(torch.nn.Linear):
    """A frozen linear layer. PEFT puts adapters on it as on any other."""

    def __init__(self, blocks: torch.Tensor, kind: Kind, bias: torch.nn.Parameter | None) -> None:
        torch.nn.Module.__init__(self)
        self.out_features, self.in_features = len(blocks), width_of(blocks, kind)
        self.weight = torch.nn.Parameter(blocks, requires_grad=False)
        self.register_parameter("bias", bias)
        self.type_of_products = torch.float32
        self.kind = kind
        # A tensor, on the host: compiled code has numbers as constants, and would be made for each type anew.
        self.kinds = torch.tensor([kind.value])

    def values(self, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """[out, in]"""
        return values(self.weight, self.kind, dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        device = x.device.type
        if torch.is_autocast_enabled(device):
            x = x.to(torch.get_autocast_dtype(device))
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return BLOCK_PRODUCT(x, [self.weight], self.kinds, bias, self.out_features)

    def added_to(self, sum: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """sum [T, out] + W x, of the same type and rounded once, without the bias; x [T, in]"""
        return BLOCK_PRODUCT(x, [self.weight], self.kinds, sum, self.out_features)


class QuantisedEmbedding(torch.nn.Embedding):
    """A frozen table of embeddings."""

    def __init__(self, blocks: torch.Tensor, kind: Kind, padding: int | None, scale: float | None) -> None:
        """`scale`: what embeddings are multiplied by (Gemma)."""
        torch.nn.Module.__init__(self)
        self.num_embeddings, self.embedding_dim = len(blocks), width_of(blocks, kind)
        self.padding_idx = padding
        self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse = None, 2.0, False, False
        self.weight = torch.nn.Parameter(blocks, requires_grad=False)
        self.kind, self.scale = kind, scale

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        # Not a view of what is computed: compiled layers tell the first layer's input, which this is, from the others'.
        found = torch.empty(*ids.shape, self.embedding_dim, device=self.weight.device)
        write_values(found.view(-1, self.embedding_dim), self.weight[ids.flatten()], self.kind)
        return found if self.scale is None else found * self.scale


Quantised = QuantisedLinear | QuantisedEmbedding


def width_of(blocks: torch.Tensor, kind: Kind) -> int:
    weights, size = gguf.GGML_QUANT_SIZES[kind]
    return blocks.shape[1] // size * weights


def weights_of(linear: torch.nn.Linear) -> torch.Tensor:
    """A linear layer's weights, [out, in]: computed in f32 where they are quantised."""
    return linear.values() if isinstance(linear, QuantisedLinear) else linear.weight


def has_blocks(model: torch.nn.Module) -> bool:
    return any(isinstance(module, Quantised) for module in model.modules())


def weights_in(model: torch.nn.Module, named: str = "") -> int:
    """Number of a model's weights, or of those with `named` in their names: of blocks those that they hold. Shared ones
    count once."""
    kinds = {id(module.weight): module.kind for module in model.modules() if isinstance(module, Quantised)}

    def count(parameter: torch.nn.Parameter) -> int:
        kind = kinds.get(id(parameter))
        return parameter.numel() if kind is None else len(parameter) * width_of(parameter, kind)

    return sum(count(parameter) for name, parameter in model.named_parameters() if named in name)


def kinds_of(linears: list[torch.nn.Linear]) -> torch.Tensor | None:
    """Their types, for `joint_values`; None where none of them is quantised."""
    if not any(isinstance(linear, QuantisedLinear) for linear in linears):
        return None
    return torch.tensor([getattr(linear, "kind", PLAIN) for linear in linears])


def type_of_products(linear: torch.nn.Linear) -> torch.dtype:
    return linear.type_of_products if isinstance(linear, QuantisedLinear) else linear.weight.dtype


def joint_values(
    blocks: list[torch.Tensor], kinds: torch.Tensor, beside: torch.Tensor | None, dtype: torch.dtype
) -> torch.Tensor:
    """The values of matrices one under the other, with the columns of `beside` behind them: [out, in + P].

    kinds, on the host, has the type of each, or PLAIN for one that is no blocks.
    """
    numbers = kinds.tolist()
    first = blocks[0]
    width = first.shape[1] if numbers[0] == PLAIN else width_of(first, Kind(numbers[0]))
    rows, columns = sum(map(len, blocks)), 0 if beside is None else beside.shape[1]
    joint = torch.empty(rows, width + columns, dtype=dtype, device=first.device)
    at = 0
    for part, number in zip(blocks, numbers, strict=True):
        own = joint[at : at + len(part), :width]
        own.copy_(part) if number == PLAIN else write_values(own, part, Kind(number))
        at += len(part)
    if beside is not None:
        joint[:, width:] = beside
    return joint


def block_product(
    x: torch.Tensor, blocks: list[torch.Tensor], kinds: torch.Tensor, bias: torch.Tensor | None, out: int
) -> torch.Tensor:
    """x [..., in] → [..., out], by `joint_values`. `bias`: [out], or of two dimensions [T, out] for x [T, in]."""
    values = joint_values(blocks, kinds, None, x.dtype)
    if bias is not None and bias.dim() == 2:
        return torch.addmm(bias, x, values.T)
    return torch.nn.functional.linear(x, values, bias)


def _like_block_product(x, blocks, kinds, bias, out):
    return x.new_empty(*x.shape[:-1], out)


def block_product_backward(
    dy: torch.Tensor, blocks: list[torch.Tensor], kinds: torch.Tensor, width: int
) -> torch.Tensor:
    return torch.matmul(dy, joint_values(blocks, kinds, None, dy.dtype))


def _like_block_product_backward(dy, blocks, kinds, width):
    return dy.new_empty(*dy.shape[:-1], width)


BLOCK_PRODUCT = operation(block_product, _like_block_product)
BLOCK_PRODUCT_BACKWARD = operation(block_product_backward, _like_block_product_backward)


def _keep(context: Any, *inputs: Any) -> None:
    x, blocks, kinds, _, _ = inputs
    context.width = x.shape[-1]
    context.save_for_backward(kinds, *blocks)


def _backward(context: Any, dy: torch.Tensor) -> tuple[Any, ...]:
    kinds, *blocks = context.saved_tensors
    wanted = context.needs_input_grad[1]
    dx = BLOCK_PRODUCT_BACKWARD(dy.contiguous(), blocks, kinds, context.width) if wanted else None
    # Only what a product is added to learns; biases are frozen.
    return dx, None, None, dy if context.needs_input_grad[4] else None, None


differentiate(BLOCK_PRODUCT, _keep, _backward)
