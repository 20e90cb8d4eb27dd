"""Tensors of a GGUF file: in f32, or as their blocks."""

import mmap

import gguf
import numpy
import torch

ROWS = 1024
"""Dequantised at once: gguf holds its result twice, which is too much for a large table."""


def dequantised(tensor: gguf.ReaderTensor) -> torch.Tensor:
    """A copy in the file's shape and order. Raises NotImplementedError for types that gguf cannot dequantise."""
    rows = tensor.data.reshape(-1, tensor.data.shape[-1])
    numbers = numpy.empty((len(rows), int(tensor.shape[0])), dtype=numpy.float32)
    for start in range(0, len(rows), ROWS):
        numbers[start : start + ROWS] = gguf.dequantize(rows[start : start + ROWS], tensor.tensor_type)
    _forget_pages(tensor)
    return torch.from_numpy(numbers.reshape([int(size) for size in reversed(tensor.shape)]))


def blocks_of(tensor: gguf.ReaderTensor) -> torch.Tensor:
    """A copy of a matrix's quantised blocks, [rows, bytes of a row]."""
    blocks = torch.from_numpy(numpy.array(tensor.data))
    _forget_pages(tensor)
    return blocks


def _forget_pages(tensor: gguf.ReaderTensor) -> None:
    """Unmaps the pages that were read from this process; they stay in the system's cache, as the engine's do."""
    mapping = getattr(tensor.data, "_mmap", None)
    if mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED)
