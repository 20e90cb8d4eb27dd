"""Short convolutions over a packed row (packing.py): the layers of LFM2 that have no attention.

transformers' convolution reads the tokens of a row that stand before a position, whose ever they are. Here it reads
those before it in its trajectory: for the first positions of a branch the end of the prefix that it shares, for the
first ones of a trajectory nothing.
"""

from typing import Any

import torch
from transformers.models.lfm2.modeling_lfm2 import Lfm2ShortConv

from .architectures import ARCHITECTURES, MODEL_TYPES
from .device import on_device
from .packing import Pack


class PackedShortConv(Lfm2ShortConv):
    """In the place of transformers', with the same parameters."""

    def forward(
        self,
        hidden_states: torch.Tensor,
        past_key_values: Any = None,
        attention_mask: torch.Tensor | None = None,
        seq_idx: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """hidden_states [1, T, width]; seq_idx is what `of_row` makes, without which the row is one sequence."""
        if seq_idx is None:
            return super().forward(hidden_states, past_key_values, attention_mask)
        before, gate, x = self.in_proj(hidden_states)[0].chunk(3, -1)
        inputs = before * x
        # [width, taps]: the last is that of the position itself.
        taps = self.conv.weight[:, 0]
        mixed = inputs * taps[:, -1]
        for back, (places, there) in enumerate(zip(*seq_idx, strict=True), 1):
            read = inputs.index_select(0, places)
            mixed = mixed + torch.where(there, read, 0) * taps[:, -1 - back]
        return self.out_proj(gate * mixed)[None]


def pack(model: Any) -> None:
    """Makes the model's convolutions those of packed rows."""
    for layer in model.model.layers:
        if hasattr(layer, "conv"):
            layer.conv.__class__ = PackedShortConv


def of_row(config: Any, row: Pack, device: torch.device) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """What a model's layers need for their convolutions of a row, as arguments; nothing for models without: the places
    of earlier positions, [taps - 1, T], and whether there are such, [taps - 1, T, 1]."""
    if not ARCHITECTURES[MODEL_TYPES[config.model_type]].convolves:
        return {}
    places = earlier(row, config.conv_L_cache - 1)
    return {"seq_idx": (on_device(places.clamp(min=0), device), on_device(places[..., None] >= 0, device))}


def earlier(row: Pack, count: int) -> torch.Tensor:
    """For each position the 1st to the `count`-th before it in its trajectory, [count, T]; -1 where there is none."""
    length = len(row.ids)
    places = torch.arange(length) - torch.arange(1, count + 1)[:, None]
    start = 0
    for segment in row.segments:
        # Of each part as many as are read at most, so of the last parts enough.
        parts = [range(max(first, end - count), end) for first, end in segment.before[-count:]]
        path = [-1] * count + [place for part in parts for place in part]
        for back in range(1, count + 1):
            for at in range(min(back, segment.length)):
                places[back - 1, start + at] = path[at - back]
        start += segment.length
    # Padding has no segment.
    places[:, start:] = -1
    return places
