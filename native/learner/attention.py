"""Attention over a packed row (packing.py), as an attention function of transformers.

Each completion attends to its prompt's keys and its own, so nothing is computed that a mask would throw away, and no
mask over the whole row exists. Works on any device that has PyTorch's scaled_dot_product_attention.
"""

from dataclasses import dataclass, field

import torch
from torch.nn.functional import scaled_dot_product_attention

from .packing import Tree

NAME = "hone_packed"
MASK_ALIGNMENT = 8
"""Elements: so PyTorch's memory-efficient attention wants a mask's strides (preprocess_mask, ATen's attention.cpp)."""


@dataclass
class Layout:
    """The trees of the row in work, with the masks that all layers share."""

    trees: tuple[Tree, ...]
    _masks: dict[tuple[int, int], torch.Tensor] = field(default_factory=dict)

    def mask(self, prompt: int, length: int, like: torch.Tensor) -> torch.Tensor:
        """Added to the scores of `length` queries over prompt + length keys: 0 where seen, -inf where later.

        In the type that attention computes in, and with rows that start at multiples of MASK_ALIGNMENT: of any other
        mask every call makes a copy, which is kept until the backward pass.
        """
        key = (prompt, length)
        if key not in self._masks:
            width = -(-(prompt + length) // MASK_ALIGNMENT) * MASK_ALIGNMENT
            hidden = torch.full((length, width), float("-inf"), dtype=computed_in(like), device=like.device)
            self._masks[key] = hidden.triu_(prompt + 1)[:, : prompt + length]
        return self._masks[key]


def computed_in(like: torch.Tensor) -> torch.dtype:
    """The type that autocast has attention compute in; without autocast the tensor's own."""
    device = like.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else like.dtype


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    layout: Layout | None = None,
    **_: object,
) -> tuple[torch.Tensor, None]:
    """query [1, heads, T, size], key and value [1, key heads, T, size] → output [1, T, heads, size]."""
    if layout is None:
        raise ValueError("packed attention needs the layout of the row")
    _, heads, total, size = query.shape
    key_heads = key.shape[1]
    shared = heads // key_heads
    # Query heads that share a key head become a batch dimension over which keys are expanded, not copied.
    query = query.view(key_heads, shared, total, size).transpose(0, 1)
    # Split once: the backward of a slice would fill and add a tensor of the whole row for each part.
    lengths = [length for tree in layout.trees for length in (tree.prompt, *tree.completions)]
    parts = zip(query.split(lengths, 2), key.split(lengths, 2), value.split(lengths, 2), strict=True)

    def attend(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, prompt: int) -> torch.Tensor:
        # Autocast would convert what was expanded, and so copy a key head for each query head that shares it.
        keys, values = keys.to(computed_in(keys)), values.to(computed_in(values))
        return scaled_dot_product_attention(
            queries,
            keys.expand(shared, -1, -1, -1),
            values.expand(shared, -1, -1, -1),
            attn_mask=layout.mask(prompt, queries.shape[2], queries) if prompt else None,
            is_causal=prompt == 0,
            dropout_p=dropout,
            scale=scaling,
        )

    outputs: list[torch.Tensor] = []
    for tree in layout.trees:
        queries, prompt_keys, prompt_values = next(parts)
        if tree.prompt:
            outputs.append(attend(queries, prompt_keys, prompt_values, 0))
        for length in tree.completions:
            queries, keys, values = next(parts)
            if length:
                keys, values = torch.cat((prompt_keys, keys), 2), torch.cat((prompt_values, values), 2)
                outputs.append(attend(queries, keys, values, tree.prompt))
    # [shared, key heads, T, size] → [1, T, key heads * shared, size]
    return torch.cat(outputs, 2).permute(2, 1, 0, 3).reshape(1, total, heads, size), None


def register() -> None:
    """Makes the function known to transformers, which then builds no mask of its own."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, packed_attention)
