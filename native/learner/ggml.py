"""llama.cpp's own code for the values of quantised blocks, which on a CPU takes a fraction of the time of PyTorch's
operations, and no memory on the way.

The library is the engine's. A function of it is taken where its values are those of block_types.py bit for bit: a
compiler that contracts products and sums to fused multiply-adds makes others.
"""

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import gguf
import torch

from .block_types import VALUES, Kind

LIBRARY = "HONE_GGML"
"""Variable with the path of ggml's base library. Without it PyTorch computes."""
TRIED = 256
"""Number of random blocks that a function is tried with."""

Write = Callable[[int, int, int], None]
"""(address of blocks, address of f32 values, number of values)"""


def write_to(out: torch.Tensor, blocks: torch.Tensor, kind: Kind) -> bool:
    """Writes the values of blocks [rows, bytes] in `out` [rows, width]. False, and nothing is written, where this is
    not possible: on a device, in another type than f32, or into rows that do not follow each other."""
    fits = out.device.type == "cpu" and out.dtype == torch.float32 and out.is_contiguous() and blocks.is_contiguous()
    write = _function(kind) if fits else None
    if write is None:
        return False
    threads = min(torch.get_num_threads(), len(out))
    bounds = [len(out) * part // threads for part in range(threads + 1)]

    def part(number: int) -> None:
        start, end = bounds[number], bounds[number + 1]
        write(blocks[start].data_ptr(), out[start].data_ptr(), (end - start) * out.shape[1])

    if threads == 1:
        part(0)
    else:
        list(_pool(threads).map(part, range(threads)))
    return True


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "values")


@cache
def _function(kind: Kind) -> Write | None:
    path = os.environ.get(LIBRARY)
    if not path:
        return None
    try:
        function = getattr(ctypes.CDLL(path), f"dequantize_row_{kind.name.lower().replace('_k', '_K')}")
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    function.restype = None
    return function if _is_exact(function, kind) else None


def _is_exact(write: Write, kind: Kind) -> bool:
    width, size = gguf.GGML_QUANT_SIZES[kind]
    generator = torch.Generator().manual_seed(0)
    blocks = torch.randint(256, (TRIED, size), dtype=torch.uint8, generator=generator)
    wanted, found = VALUES[kind](blocks), torch.empty(TRIED, width)
    write(blocks.data_ptr(), found.data_ptr(), found.numel())
    # A scale of random bits may be infinite or NaN, of which there are many.
    known = wanted.isfinite()
    return torch.equal(wanted[known].view(torch.int32), found[known].view(torch.int32))
