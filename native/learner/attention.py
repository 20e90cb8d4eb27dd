"""Attention over a packed row (packing.py), as an attention function of transformers.

Each block of positions (blocks.py) attends to the keys of its path and its own, so little is computed that a mask would
discard, and no mask over the whole row exists. Works on any device with PyTorch's scaled_dot_product_attention.
On a card flex.py attends in one call for the whole row (card.py says when).
"""

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Protocol

import torch
from torch.nn.functional import scaled_dot_product_attention

from .blocks import Block, blocks_of
from .packing import Pack

NAME = "hone_packed"
MASK_ALIGNMENT = 8
"""In elements: the stride that PyTorch's memory-efficient attention requires of a mask (preprocess_mask,
attention.cpp)."""


class Attending(Protocol):
    """The attention of a row: in blocks (Layout), or in one call (flex.py)."""

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float, window: int | None = None
    ) -> torch.Tensor:
        """query [1, heads, T, size], key and value [1, key heads, T, size] → output [1, T, heads, size].

        With a window a position sees itself and the window - 1 before it in its trajectory.
        """
        ...


def idle() -> None:
    """Nobody waits for signs of work."""


class Layout:
    """The attention of the current row, with the masks that all layers share."""

    def __init__(self, pack: Pack) -> None:
        self.blocks = tuple(blocks_of(pack.segments))
        self.lengths = [block.length for block in self.blocks]
        self._ends, self._positions = pack.ends, pack.positions
        cuts = {cut for block in self.blocks for part in block.before for cut in part}
        bounds = sorted(cuts | {block.start for block in self.blocks} | {len(pack.ids)})
        number = {bound: index for index, bound in enumerate(bounds)}
        self._sizes: list[list[int]] = []
        """Parts of each block that other blocks attend to as a whole."""
        self.before: list[list[int]] = []
        """Indices of the parts, counted through the row, that each block attends to before its own positions."""
        for block in self.blocks:
            inside = bounds[number[block.start] : number[block.end] + 1]
            self._sizes.append([end - start for start, end in pairwise(inside)])
            self.before.append([part for start, end in block.before for part in range(number[start], number[end])])
        self._masks: dict[object, torch.Tensor] = {}
        self.at_work: Callable[[], None] = idle
        """Called with each layer's attention, and again in the backward pass."""

    def parts(self, wholes: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        """All parts of the row, from its blocks. Each tensor is split once: the backward pass of a slice would fill and
        add a tensor of full size for each part."""
        parts: list[torch.Tensor] = []
        for whole, sizes in zip(wholes, self._sizes, strict=True):
            parts += whole.split(sizes, 2) if len(sizes) > 1 else (whole,)
        return parts

    def mask(self, block: Block, like: torch.Tensor, window: int | None = None) -> torch.Tensor | None:
        """Added to the scores of the block's queries: 0 where visible, -inf elsewhere; None where causal attention
        suffices.

        In attention's precision, and with rows that start at multiples of MASK_ALIGNMENT: any other mask is copied in
        every call, and the copy is kept until the backward pass.
        """
        # The first key of every block is the first token of its trajectories: a shorter block sees all in the window.
        if window is not None and int(self._positions[block.start : block.end].max()) < window:
            window = None
        if block.chain and not block.seen and window is None:
            return None
        key = (block.seen, block.length, window) if block.chain else (block, window)
        if key not in self._masks:
            width = -(-(block.seen + block.length) // MASK_ALIGNMENT) * MASK_ALIGNMENT
            mask = torch.zeros((block.length, width), dtype=like.dtype, device=like.device)[
                :, : block.seen + block.length
            ]
            self._masks[key] = mask.masked_fill_(self._hidden(block, window).to(like.device), float("-inf"))
        return self._masks[key]

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float, window: int | None = None
    ) -> torch.Tensor:
        _, heads, total, size = query.shape
        key_heads = key.shape[1]
        shared = heads // key_heads
        # Autocast would convert after gathering and expanding: the same key for each block and query head that uses it.
        dtype = computed_in(query)
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
        # Query heads that share a key head become a batch dimension over which keys are expanded, not copied.
        query = query.view(key_heads, shared, total, size).transpose(0, 1)
        own_keys, own_values = key.split(self.lengths, 2), value.split(self.lengths, 2)
        keys_before, values_before = self.parts(own_keys), self.parts(own_values)
        outputs: list[torch.Tensor] = []
        blocks = zip(self.blocks, self.before, query.split(self.lengths, 2), own_keys, own_values, strict=True)
        for block, before, queries, keys, values in blocks:
            if before:
                keys = torch.cat((*(keys_before[part] for part in before), keys), 2)
                values = torch.cat((*(values_before[part] for part in before), values), 2)
            mask = self.mask(block, queries, window)
            output = scaled_dot_product_attention(
                queries,
                keys.expand(shared, -1, -1, -1),
                values.expand(shared, -1, -1, -1),
                attn_mask=mask,
                is_causal=mask is None,
                scale=scaling,
            )
            outputs.append(output)
        # [shared, key heads, T, size] → [1, T, key heads * shared, size]
        attended = torch.cat(outputs, 2).permute(2, 1, 0, 3).reshape(1, total, heads, size)
        self.at_work()
        if attended.requires_grad:
            attended.register_hook(lambda _: self.at_work())
        return attended

    def _hidden(self, block: Block, window: int | None) -> torch.Tensor:
        """bool [queries, keys]"""
        queries = torch.arange(block.start, block.end)[:, None]
        keys = torch.cat([torch.arange(start, end) for start, end in (*block.before, (block.start, block.end))])
        hidden = (keys > queries) | (queries >= self._ends[keys])
        return hidden if window is None else hidden | (self._positions[queries] - self._positions[keys] >= window)


def windows_of(layers: Iterable[torch.nn.Module]) -> frozenset[int | None]:
    """Of a decoder's layers that attend; None: without."""
    attending = (layer.self_attn for layer in layers if hasattr(layer, "self_attn"))
    return frozenset(getattr(attention, "sliding_window", None) for attention in attending)


def computed_in(like: torch.Tensor) -> torch.dtype:
    """The precision of attention under autocast; without autocast the tensor's own."""
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
    layout: Attending | None = None,
    sliding_window: int | None = None,
    **_: object,
) -> tuple[torch.Tensor, None]:
    """query [1, heads, T, size], key and value [1, key heads, T, size] → output [1, T, heads, size]."""
    if layout is None:
        raise ValueError("packed attention needs the layout of the row")
    if dropout:
        raise ValueError("packed attention has no dropout: the engine has none")
    return layout.attend(query, key, value, scaling, sliding_window), None


def register() -> None:
    """Registers the function with transformers, which then builds no mask of its own."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, packed_attention)
