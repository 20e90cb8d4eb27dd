"""Writes a copy of a GGUF model file with other weights: the metadata (tokenizer, chat template, shape) is copied
unchanged. One tensor is in memory at a time."""

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy
import torch

from .choice import ROPE_FACTORS
from .errors import Refused
from .gguf_model import GgufModel, hf_name, permute

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


def write_gguf(target: Path, base: GgufModel, values: Callable[[str], torch.Tensor], kind: str) -> None:
    """`values` returns a tensor by its Hugging Face name, in Hugging Face's shape and order. Matrices are of `kind`
    ("f32", "f16" or "bf16"), vectors f32, as llama.cpp's converter writes them.

    Raises Refused when a number is too large for the type.
    """
    reader = gguf.GGUFReader(base.path)
    writer = gguf.GGUFWriter(target, base.architecture)
    _copy_metadata(reader, writer)
    writer.add_file_type(FILE_TYPES[kind])
    for tensor in reader.tensors:
        shape = [int(size) for size in reversed(tensor.shape)]
        stored = _KINDS[kind] if len(shape) > 1 else gguf.GGMLQuantizationType.F32
        size = int(tensor.n_elements) * gguf.GGML_QUANT_SIZES[stored][1]
        writer.add_tensor_info(tensor.name, shape, numpy.dtype(numpy.float32), size, raw_dtype=stored)
    writer.write_header_to_file()
    try:
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for tensor in reader.tensors:
            writer.write_tensor_data(_numbers(tensor, base, values, kind))
    finally:
        writer.close()


def _numbers(
    tensor: gguf.ReaderTensor, base: GgufModel, values: Callable[[str], torch.Tensor], kind: str
) -> numpy.ndarray:
    if tensor.name == ROPE_FACTORS:
        return numpy.array(tensor.data, dtype=numpy.float32)
    name = hf_name(tensor.name)
    ours = values(name).detach().to("cpu", torch.float32)
    if base.architecture == "llama" and (".q_proj." in name or ".k_proj." in name):
        heads = base.config.num_attention_heads if ".q_proj." in name else base.config.num_key_value_heads
        ours = permute(ours, heads)
    return _stored(name, ours, kind if ours.dim() > 1 else "f32")


def _copy_metadata(reader: gguf.GGUFReader, writer: gguf.GGUFWriter) -> None:
    for field in reader.fields.values():
        # The writer writes its own header and architecture; the type of the weights changes.
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        element = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, element)


def _stored(name: str, values: torch.Tensor, kind: str) -> numpy.ndarray:
    if kind == "bf16":
        # numpy has no bfloat16, so its bits are written.
        return values.to(torch.bfloat16).contiguous().view(torch.uint16).numpy()
    if kind == "f16":
        check_f16(name, values)
        return values.numpy().astype(numpy.float16)
    return numpy.ascontiguousarray(values.numpy())


def check_f16(name: str, values: torch.Tensor) -> None:
    """Raises Refused if rounding to f16 would make a number infinite."""
    if values.abs().max().item() > F16_MOST:
        raise Refused(f"{name} has numbers above {F16_MOST:.0f}, which f16 does not hold: give --type bf16")
