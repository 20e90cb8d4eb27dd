"""Writes a copy of a GGUF model file with other weights: the metadata (tokenizer, chat template, shape) is copied
unchanged. One tensor is in memory at a time."""

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy
import torch

from .errors import Refused

FILE_TYPES = {
    "f32": gguf.LlamaFileType.ALL_F32,
    "f16": gguf.LlamaFileType.MOSTLY_F16,
    "bf16": gguf.LlamaFileType.MOSTLY_BF16,
}
_KINDS = {
    "f32": gguf.GGMLQuantizationType.F32,
    "f16": gguf.GGMLQuantizationType.F16,
    "bf16": gguf.GGMLQuantizationType.BF16,
}
F16_MOST = 65504.0


def write_gguf(
    target: Path, reader: gguf.GGUFReader, values: Callable[[gguf.ReaderTensor], torch.Tensor], kind: str
) -> None:
    """`values` returns a tensor in f32, in the file's shape and order. Matrices are of `kind` ("f32", "f16" or "bf16"),
    vectors f32, as llama.cpp's converter writes them.

    Raises Refused when a number is too large for the type.
    """
    writer = gguf.GGUFWriter(target, reader.get_field("general.architecture").contents())
    _copy_metadata(reader, writer)
    writer.add_file_type(FILE_TYPES[kind])
    for tensor in reader.tensors:
        shape = [int(size) for size in reversed(tensor.shape)]
        stored = stored_type(tensor, kind)
        size = int(tensor.n_elements) * gguf.GGML_QUANT_SIZES[stored][1]
        writer.add_tensor_info(tensor.name, shape, numpy.dtype(numpy.float32), size, raw_dtype=stored)
    writer.write_header_to_file()
    try:
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for tensor in reader.tensors:
            numbers = values(tensor).detach().to("cpu", torch.float32)
            writer.write_tensor_data(_stored(tensor.name, numbers, stored_type(tensor, kind)))
    finally:
        writer.close()


def stored_type(tensor: gguf.ReaderTensor, kind: str) -> gguf.GGMLQuantizationType:
    """The type in which a copy with weights of `kind` stores a tensor."""
    # ggml convolves with f32 alone.
    full = len(tensor.shape) < 2 or tensor.name.endswith(".shortconv.conv.weight")
    return gguf.GGMLQuantizationType.F32 if full else _KINDS[kind]


def is_copied(field: str) -> bool:
    """Whether a copy has this field of the source: the writer writes its own header, architecture and alignment, and
    the type of the weights changes."""
    own = ("general.architecture", "general.alignment", "general.file_type")
    return not field.startswith("GGUF.") and field not in own


def _copy_metadata(reader: gguf.GGUFReader, writer: gguf.GGUFWriter) -> None:
    for field in reader.fields.values():
        if not is_copied(field.name):
            continue
        kind = field.types[0]
        element = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, element)


def _stored(name: str, values: torch.Tensor, kind: gguf.GGMLQuantizationType) -> numpy.ndarray:
    if kind == gguf.GGMLQuantizationType.BF16:
        # numpy has no bfloat16, so its bits are written.
        return values.to(torch.bfloat16).contiguous().view(torch.uint16).numpy()
    if kind == gguf.GGMLQuantizationType.F16:
        check_f16(name, values)
        return values.numpy().astype(numpy.float16)
    return numpy.ascontiguousarray(values.numpy())


def check_f16(name: str, values: torch.Tensor) -> None:
    """Raises Refused if rounding to f16 would make a number infinite."""
    if values.abs().max().item() > F16_MOST:
        raise Refused(f"{name} has numbers above {F16_MOST:.0f}, which f16 does not hold: take bf16")
