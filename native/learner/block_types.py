"""The values of GGUF's quantised blocks, computed by PyTorch on any device.

A block is so many weights that are neighbours in a row of a matrix: one or more scales, and a few bits for each weight.
The layouts are those of llama.cpp's ggml-common.h (block_q4_0, block_q4_K, ...); q is a weight's integer:

    Q8_0, Q4_0, Q5_0    d · q
    Q4_1, Q5_1          d · q + m
    Q4_K, Q5_K          (d · scale) · q - (dmin · min), 32 weights to a scale and a min
    Q6_K                (d · scale) · q, 16 weights to a scale

In f32, the products and sums are those of gguf-py in the same order: equal bit for bit, unless a compiler contracts
them to fused multiply-adds.
"""

from collections.abc import Callable

import gguf
import torch

Kind = gguf.GGMLQuantizationType


def _half(pair: torch.Tensor) -> torch.Tensor:
    """[N, 2] bytes of an f16 → [N, 1] in f32."""
    return pair.contiguous().view(torch.float16).float()


def _nibbles(packed: torch.Tensor) -> torch.Tensor:
    """[..., n] bytes → [..., 2, n]: their lower halves, then their upper ones."""
    return torch.stack((packed & 15, packed >> 4), -2)


def _fields(packed: torch.Tensor, bits: int) -> torch.Tensor:
    """[..., n] bytes → [..., 8 / bits, n]: each byte's fields of so many bits, the lowest first."""
    shifts = torch.arange(0, 8, bits, device=packed.device, dtype=torch.uint8)
    return (packed[..., None, :] >> shifts[:, None]) & (2**bits - 1)


def _fifth_bits(packed: torch.Tensor) -> torch.Tensor:
    """[N, 4] → [N, 32]: bit i of the 32 is weight i's."""
    return _fields(packed, 1).transpose(-1, -2).flatten(1)


def _centred(q: torch.Tensor, zero: int) -> torch.Tensor:
    return q.view(torch.int8) - zero


def _q8_0(blocks: torch.Tensor) -> torch.Tensor:
    return _half(blocks[:, :2]) * blocks[:, 2:].view(torch.int8)


def _q4_0(blocks: torch.Tensor) -> torch.Tensor:
    return _half(blocks[:, :2]) * _centred(_nibbles(blocks[:, 2:]).flatten(1), 8)


def _q4_1(blocks: torch.Tensor) -> torch.Tensor:
    return _half(blocks[:, :2]) * _nibbles(blocks[:, 4:]).flatten(1) + _half(blocks[:, 2:4])


def _q5_0(blocks: torch.Tensor) -> torch.Tensor:
    q = _nibbles(blocks[:, 6:]).flatten(1) | (_fifth_bits(blocks[:, 2:6]) << 4)
    return _half(blocks[:, :2]) * _centred(q, 16)


def _q5_1(blocks: torch.Tensor) -> torch.Tensor:
    q = _nibbles(blocks[:, 8:]).flatten(1) | (_fifth_bits(blocks[:, 4:8]) << 4)
    return _half(blocks[:, :2]) * q + _half(blocks[:, 2:4])


def _scales_and_mins(packed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Q4_K's 12 bytes, [N, 12] → eight scales and eight mins of 6 bits, each [N, 8].

    The first four of each are the lower 6 bits of a byte; the upper bits of these bytes, with halves of the last four
    bytes, are the others.
    """
    first, second, rest = packed.split(4, 1)
    scales = torch.cat((first & 63, (rest & 15) | ((first >> 2) & 48)), 1)
    mins = torch.cat((second & 63, (rest >> 4) | ((second >> 2) & 48)), 1)
    return scales, mins


def _k_values(blocks: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Of Q4_K and Q5_K: q [N, 8, 32]."""
    scales, mins = _scales_and_mins(blocks[:, 4:16])
    scale, offset = _half(blocks[:, :2]) * scales, _half(blocks[:, 2:4]) * mins
    return (scale[..., None] * q - offset[..., None]).flatten(1)


def _q4_k(blocks: torch.Tensor) -> torch.Tensor:
    return _k_values(blocks, _nibbles(blocks[:, 16:].unflatten(1, (4, 32))).flatten(1, 2))


def _q5_k(blocks: torch.Tensor) -> torch.Tensor:
    low = _nibbles(blocks[:, 48:].unflatten(1, (4, 32))).flatten(1, 2)
    return _k_values(blocks, low | (_fields(blocks[:, 16:48], 1) << 4))


def _q6_k(blocks: torch.Tensor) -> torch.Tensor:
    low = _nibbles(blocks[:, :128].unflatten(1, (2, 64))).reshape(-1, 8, 32)
    high = _fields(blocks[:, 128:192].unflatten(1, (2, 32)), 2).flatten(1, 2)
    q = _centred(low | (high << 4), 32).reshape(-1, 16, 16)
    scale = _half(blocks[:, 208:]) * blocks[:, 192:208].view(torch.int8)
    return (scale[..., None] * q).flatten(1)


VALUES: dict[Kind, Callable[[torch.Tensor], torch.Tensor]] = {
    Kind.Q8_0: _q8_0,
    Kind.Q4_0: _q4_0,
    Kind.Q4_1: _q4_1,
    Kind.Q5_0: _q5_0,
    Kind.Q5_1: _q5_1,
    Kind.Q4_K: _q4_k,
    Kind.Q5_K: _q5_k,
    Kind.Q6_K: _q6_k,
}
"""From blocks [N, bytes of one] to their values in f32, [N, weights of one]."""
