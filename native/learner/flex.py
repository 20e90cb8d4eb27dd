"""Attention over a packed row in one call per layer: FlexAttention with the trie's mask, `k <= q < ends[k]`, and a
window's.

A compiled call is one kernel, which skips squares of scores that are entirely masked and applies no mask in those that
are entirely visible. Uncompiled it computes all scores of a row, which only tests do.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from .attention import computed_in
from .device import on_device
from .packing import Pack

SQUARE = 128
"""Side of a square of scores, in positions; FlexAttention's own default."""
SIZES = 8
"""Number of row lengths between a power of two and the next: padding is less than one part in this many."""


def row_length(positions: int) -> int:
    """The length that a row with this many positions is padded to.

    Compiled code serves all lengths; but they are few, so that PyTorch's allocator finds blocks of the right size
    again. Never one or two squares: compiled code would be for a dimension of 1 alone, and for 2, which RoPE's halves
    are as well.
    """
    step = max(SQUARE, 2 ** (max(1, positions - 1).bit_length() - 1) // SIZES)
    return max(3 * SQUARE, -(-positions // step) * step)


def padded(pack: Pack) -> Pack:
    """Appends positions that attend to themselves only, and that predict nothing."""
    length = len(pack.ids)
    more = row_length(length) - length
    zeros = torch.zeros(more, dtype=pack.ids.dtype)
    alone = torch.arange(length, length + more) + 1
    return replace(
        pack,
        ids=torch.cat((pack.ids, zeros)),
        positions=torch.cat((pack.positions, zeros)),
        ends=torch.cat((pack.ends, alone)),
    )


def block_mask(
    ends: torch.Tensor, positions: torch.Tensor, device: torch.device, window: int | None = None
) -> BlockMask:
    """For a padded row. Which squares are visible in full or in part follows from the first and last end in each range
    of keys, and from the positions in both ranges; create_block_mask would evaluate every score."""
    count = len(ends) // SQUARE
    by_keys = ends.view(count, SQUARE)
    start = torch.arange(count) * SQUARE
    # [queries, keys]: of queries after the keys, the first sees the most of them, the last the fewest.
    later = start[:, None] > start
    some = later & (by_keys.amax(1) > start[:, None])
    whole = later & (by_keys.amin(1) >= start[:, None] + SQUARE)
    own = on_device(ends, device)
    if window is not None:
        least, most = (one[:, None] for one in positions.view(count, SQUARE).aminmax(dim=1))
        some &= least - most.T < window
        whole &= most - least.T < window
        places = on_device(positions, device)
    partly = some & ~whole | torch.eye(count, dtype=torch.bool)

    def sees(batch: Any, head: Any, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        visible = (key <= query) & (query < own[key])
        return visible if window is None else visible & (places[query] - places[key] < window)

    # Created on the CPU: on a card each of its small steps would be a launch.
    mask = BlockMask.from_kv_blocks(*_listed(partly), *_listed(whole), BLOCK_SIZE=SQUARE, mask_mod=sees)
    return BlockMask(
        seq_lengths=mask.seq_lengths,
        BLOCK_SIZE=mask.BLOCK_SIZE,
        mask_mod=sees,
        **{
            name: None if (values := getattr(mask, name)) is None else on_device(values, device)
            for name in BlockMask._TENSOR_ATTRS
        },
    )


def _listed(squares: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Number of squares of each range of queries, [1, 1, n], and their indices, those first, [1, 1, n, n]."""
    order = squares.int().argsort(dim=1, descending=True, stable=True)
    return squares.sum(1)[None, None].int(), order[None, None].int()


class FlexLayout:
    """The attention of the current row; attention.packed_attention uses it."""

    def __init__(
        self,
        pack: Pack,
        device: torch.device,
        attend: Callable[..., Any] = flex_attention,
        windows: frozenset[int | None] = frozenset({None}),
        expanded: bool = False,
    ) -> None:
        """`windows` are those of the model's layers; None: without. `expanded`: as `Rows.expanded`."""
        self._expanded = expanded
        self.masks = {window: block_mask(pack.ends, pack.positions, device, window) for window in windows}
        self._call = attend

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float, window: int | None = None
    ) -> torch.Tensor:
        dtype = computed_in(query)
        if self._expanded and query.shape[1] != key.shape[1]:
            key, value = (one.repeat_interleave(query.shape[1] // key.shape[1], 1) for one in (key, value))
        output = self._call(
            query.to(dtype),
            key.to(dtype),
            value.to(dtype),
            block_mask=self.masks[window],
            scale=scaling,
            enable_gqa=query.shape[1] != key.shape[1],
        )
        return output.transpose(1, 2)
