"""Writes a model whose weights were all trained: as a Hugging Face folder, and as a GGUF file beside it.

The GGUF file is the base file with new weights: its metadata (tokenizer, chat template, shape) is copied.
Matrices are f16, vectors f32, as llama.cpp's converter writes them.
"""

from pathlib import Path

import gguf
import numpy
import torch

from .gguf_model import GgufModel, hf_name, permute

_FILE_TYPE = "general.file_type"


def write_model(folder: Path, model: torch.nn.Module, base: GgufModel) -> None:
    """Writes `model/` and `model.gguf` into `folder`."""
    model.save_pretrained(folder / "model", safe_serialization=True)
    reader = gguf.GGUFReader(base.path)
    writer = gguf.GGUFWriter(folder / "model.gguf", base.architecture)
    for field in reader.fields.values():
        # The writer adds its own header and architecture; the weight type changes.
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", _FILE_TYPE):
            continue
        kind = field.types[0]
        element = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, element)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    for tensor in reader.tensors:
        name = hf_name(tensor.name)
        values = model.get_parameter(name).detach().float().cpu()
        if base.architecture == "llama" and (".q_proj." in name or ".k_proj." in name):
            heads = base.config.num_attention_heads if ".q_proj." in name else base.config.num_key_value_heads
            values = permute(values, heads)
        writer.add_tensor(tensor.name, values.numpy().astype(numpy.float16 if values.dim() > 1 else numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
