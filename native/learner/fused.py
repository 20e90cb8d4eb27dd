"""A layer computed with few kernels: one product for all matrices of one input, one for all their adapters.

Of a layer's seven linear layers q, k and v have one input, and so have gate and up. Their matrices are rows of one
matrix here, their adapters' A rows of one A, and their B's blocks on the diagonal of one B, which is zero elsewhere and
has the factor s = alpha / rank. With x the input and y the output:

    forward    u = A x;  y = B u;  y += W x
    backward   [dx | du] = dy [W | B];  dx += du A;  dA = duᵀ x;  dB = s dyᵀ u, of B without the factor

Each of these is one launch, seven in all, because W and B are columns of one matrix (fused_weights.py) and products add
to their output in place. Where there is a bias, y = [W | B] [x; u] + bias is one product. In 16 bits either way rounds
the whole sum once (adapted_linear.py says why). u is an operation apart from y: where activations are computed twice,
u is needed again for all inputs, but y not for the last. PEFT's layers launch eight products for each linear layer, and
as many other kernels. The numbers are those of PEFT's layers up to rounding.
"""

from typing import Any, ClassVar, NamedTuple

import torch
from torch.utils.checkpoint import checkpoint

from .architectures import Norms
from .operations import differentiate, operation
from .quantised import BLOCK_PRODUCT, joint_values


class Order:
    """Of sums and of rounding them to 16 bits, here and in adapted_linear.py."""

    apart: ClassVar[bool] = False
    """W x first, as vLLM and PEFT do, and then its sum with the adapter's output."""


CHECKPOINT: dict[str, Any] = {"use_reentrant": False, "preserve_rng_state": False}
"""Nothing in a layer is random."""


class Products(NamedTuple):
    """The matrices of the linear layers of one input."""

    joint: torch.Tensor | None
    """[out, in + P]: their weights, then B; None for quantised layers, whose joint matrix exists during a product."""
    blocks: list[torch.Tensor]
    """Of quantised layers, and their types (quantised.py): empty for others."""
    kinds: torch.Tensor | None
    bias: torch.Tensor | None
    a: torch.Tensor | None
    """[P, in]; None without adapters. P is the sum of the adapters' ranks, rounded up."""
    b: torch.Tensor | None
    """[out, P]: the last columns of `joint`, with the factor `scaling`; takes part in autograd, which `joint` does not:
    its gradient is that of B without the factor."""
    scaling: float

    @property
    def out(self) -> int:
        return sum(map(len, self.blocks))


class Weights(NamedTuple):
    """Of one layer."""

    qkv: Products
    o: Products
    gate_up: Products
    down: Products
    dtype: torch.dtype
    """Of products."""


def adapted(
    x: torch.Tensor,
    u: torch.Tensor,
    joint: torch.Tensor,
    bias: torch.Tensor | None,
    a: torch.Tensor,
    b: torch.Tensor,
    scaling: float,
) -> torch.Tensor:
    """x [T, in] and u [T, P] → y [T, out]. u has no gradient of its own: those of x and A include it."""
    if Order.apart:
        return torch.nn.functional.linear(x, joint[:, : x.shape[1]], bias).addmm_(u, b.T)
    if bias is not None:
        return torch.addmm(bias, torch.cat((x, u), 1), joint.T)
    return torch.mm(u, b.T).addmm_(x, joint[:, : x.shape[1]].T)


def _like_adapted(x, u, joint, bias, a, b, scaling):
    return x.new_empty(x.shape[0], joint.shape[0])


def adapted_backward(
    dy: torch.Tensor,
    x: torch.Tensor,
    u: torch.Tensor,
    joint: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    scaling: float,
    input_too: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """→ dx (of no columns unless `input_too`), dA, dB"""
    width = x.shape[1]
    if input_too:
        both = torch.mm(dy, joint)
        dx, du = both[:, :width], both[:, width:]
    else:
        dx, du = dy.new_empty(len(dy), 0), torch.mm(dy, b)
    # With beta=0 the uninitialised output is not read.
    da = torch.empty_like(a).addmm_(du.T, x, beta=0)
    db = dy.new_empty(b.shape).addmm_(dy.T, u, beta=0, alpha=scaling)
    if input_too:
        dx.addmm_(du, a)
    return dx, da, db


def _like_adapted_backward(dy, x, u, joint, a, b, scaling, input_too):
    dx = dy.new_empty(dy.shape[0], joint.shape[1])[:, : x.shape[1]] if input_too else dy.new_empty(dy.shape[0], 0)
    return dx, torch.empty_like(a), dy.new_empty(b.shape)


ADAPTED = operation(adapted, _like_adapted)
ADAPTED_BACKWARD = operation(adapted_backward, _like_adapted_backward)


def _keep(context: Any, *inputs: Any) -> None:
    x, u, joint, _, a, b, context.scaling = inputs
    context.save_for_backward(x, u, joint, a, b)


def _backward(context: Any, dy: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    x, u, joint, a, b = context.saved_tensors
    input_too = context.needs_input_grad[1]
    dx, da, db = ADAPTED_BACKWARD(dy.contiguous(), x, u, joint, a, b, context.scaling, input_too)
    return dx if input_too else None, None, None, None, da, db, None


differentiate(ADAPTED, _keep, _backward)


def adapted_blocks(
    x: torch.Tensor,
    u: torch.Tensor,
    blocks: list[torch.Tensor],
    kinds: torch.Tensor,
    bias: torch.Tensor | None,
    a: torch.Tensor,
    b: torch.Tensor,
    scaling: float,
) -> torch.Tensor:
    """As `adapted`, of quantised layers."""
    return adapted(x, u, joint_values(blocks, kinds, b, x.dtype), bias, a, b, scaling)


def _like_adapted_blocks(x, u, blocks, kinds, bias, a, b, scaling):
    return x.new_empty(x.shape[0], b.shape[0])


def adapted_blocks_backward(
    dy: torch.Tensor,
    x: torch.Tensor,
    u: torch.Tensor,
    blocks: list[torch.Tensor],
    kinds: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    scaling: float,
    input_too: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As `adapted_backward`; dx is no view."""
    joint = joint_values(blocks, kinds, b, x.dtype) if input_too else b
    dx, da, db = adapted_backward(dy, x, u, joint, a, b, scaling, input_too)
    return dx.contiguous(), da, db


def _like_adapted_blocks_backward(dy, x, u, blocks, kinds, a, b, scaling, input_too):
    dx = dy.new_empty(dy.shape[0], x.shape[1] if input_too else 0)
    return dx, torch.empty_like(a), dy.new_empty(b.shape)


ADAPTED_BLOCKS = operation(adapted_blocks, _like_adapted_blocks)
ADAPTED_BLOCKS_BACKWARD = operation(adapted_blocks_backward, _like_adapted_blocks_backward)


def _keep_of_blocks(context: Any, *inputs: Any) -> None:
    x, u, blocks, kinds, _, a, b, context.scaling = inputs
    context.save_for_backward(x, u, kinds, a, b, *blocks)


def _backward_of_blocks(context: Any, dy: torch.Tensor) -> tuple[Any, ...]:
    x, u, kinds, a, b, *blocks = context.saved_tensors
    input_too = context.needs_input_grad[1]
    gradient = dy.contiguous()
    dx, da, db = ADAPTED_BLOCKS_BACKWARD(gradient, x, u, blocks, kinds, a, b, context.scaling, input_too)
    return dx if input_too else None, None, None, None, None, da, db, None


differentiate(ADAPTED_BLOCKS, _keep_of_blocks, _backward_of_blocks)


def product(x: torch.Tensor, of: Products) -> torch.Tensor:
    if of.a is None or of.b is None:
        if of.kinds is not None:
            return BLOCK_PRODUCT(x, of.blocks, of.kinds, of.bias, of.out)
        return torch.nn.functional.linear(x, of.joint, of.bias)
    u = torch.mm(x.detach(), of.a.detach().T)
    if of.kinds is not None:
        return ADAPTED_BLOCKS(x, u, of.blocks, of.kinds, of.bias, of.a, of.b, of.scaling)
    return ADAPTED(x, u, of.joint, of.bias, of.a, of.b, of.scaling)


def layer_output(
    layer: torch.nn.Module,
    norms: Norms,
    weights: Weights,
    hidden: torch.Tensor,
    added: torch.Tensor,
    cosine: torch.Tensor,
    sine: torch.Tensor,
    layout: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """A decoder layer of transformers, of one row: hidden and added [T, width], cosine and sine [T, 2, half of the head
    size], the first half of sine negative.

    The layer's input is hidden + added; the second is the output of the layer before. The sum is left to the layer that
    reads it, in whose first norm compiled code computes it. Returns the same pair for the next layer.
    """
    return _from_sum(layer, norms, weights, hidden + added, cosine, sine, layout)


def checkpointed_layer_output(
    layer: torch.nn.Module,
    norms: Norms,
    weights: Weights,
    hidden: torch.Tensor,
    added: torch.Tensor,
    cosine: torch.Tensor,
    sine: torch.Tensor,
    layout: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `layer_output`, but keeps only hidden + added and computes activations again in the backward pass.

    The checkpoint is inside what is compiled, not around it: so the compiler leaves out what the backward pass does not
    need, such as the product of the feed-forward part's output.
    """

    def rest(total: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return _from_sum(layer, norms, weights, total, cosine, sine, layout)

    # Of two checkpoints in succession PyTorch's partitioner keeps what is between them. Otherwise it would keep the two
    # summands, which are half as large again.
    return checkpoint(rest, checkpoint(torch.add, hidden, added, **CHECKPOINT), **CHECKPOINT)


def _from_sum(
    layer: torch.nn.Module,
    norms: Norms,
    weights: Weights,
    hidden: torch.Tensor,
    cosine: torch.Tensor,
    sine: torch.Tensor,
    layout: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    attention, mlp = layer.self_attn, layer.mlp
    dtype = weights.dtype
    size = attention.head_dim
    query_heads, key_heads = attention.config.num_attention_heads, attention.config.num_key_value_heads
    # Every size but the row's length is a number here: one that PyTorch infers is symbolic in compiled code, and from a
    # symbolic number of heads CUDA's lowering of FlexAttention fails (PyTorch 2.13).
    heads = query_heads + 2 * key_heads
    read = _normed(layer, norms.before_attention, hidden).to(dtype)
    joined = product(read, weights.qkv).view(len(hidden), heads, size)
    # Slices, whose gradients compiled code writes in one kernel; those of split and cat take one each.
    turned, values = joined[:, : query_heads + key_heads], joined[:, query_heads + key_heads :]
    if hasattr(attention, "q_norm"):
        query, key = turned.split((query_heads, key_heads), 1)
        turned = torch.cat((_heads_normed(attention.q_norm, query), _heads_normed(attention.k_norm, key)), 1)
    # A part of each head, in Phi 3's layers.
    rotated = 2 * cosine.shape[-1]
    halves = (turned[..., :rotated] if rotated < size else turned).unflatten(-1, (2, rotated // 2))
    unturned = turned[..., rotated:]
    turned = (halves * cosine[:, None] + halves.flip(2) * sine[:, None]).flatten(2).to(dtype)
    if rotated < size:
        turned = torch.cat((turned, unturned.to(dtype)), 2)
    query, key = turned[:, :query_heads], turned[:, query_heads:]
    by_head = (one.transpose(0, 1)[None] for one in (query, key, values))
    window = getattr(attention, "sliding_window", None)
    seen = layout.attend(*by_head, attention.scaling, window).reshape(len(hidden), query_heads * size)
    hidden = hidden + _share(layer, norms.after_attention, product(seen, weights.o))
    activation = mlp.activation_fn if hasattr(mlp, "activation_fn") else mlp.act_fn
    gate, up = product(_normed(layer, norms.before_mlp, hidden).to(dtype), weights.gate_up).chunk(2, 1)
    return hidden, _share(layer, norms.after_mlp, product(activation(gate) * up, weights.down))


def _normed(layer: torch.nn.Module, norm: str | None, states: torch.Tensor) -> torch.Tensor:
    return states if norm is None else getattr(layer, norm)(states)


def _heads_normed(norm: torch.nn.Module, states: torch.Tensor) -> torch.Tensor:
    """states [T, heads, size]: each head by itself, or all of a position together (OLMo 2), as the weight is wide."""
    length, heads, size = states.shape
    width = norm.weight.shape[0]
    return norm(states.reshape(length, heads * size // width, width)).view(length, heads, size)


def _share(layer: torch.nn.Module, norm: str | None, added: torch.Tensor) -> torch.Tensor:
    """What a part of a layer adds: Granite's layers scale it."""
    added = _normed(layer, norm, added)
    return added * layer.residual_multiplier if hasattr(layer, "residual_multiplier") else added
