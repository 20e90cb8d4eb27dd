"""Writes a PEFT adapter as the GGUF file that llama.cpp loads.

A and B stay f32. llama.cpp scales by alpha / rank, with the rank read from B. Llama's query and key rows are interleaved
as in its model files, so B's are too.
"""

import json
import re
from pathlib import Path

import gguf
import torch
from safetensors.torch import load_file

from .gguf_model import LAYER_TENSORS, read_gguf

_GGUF_NAMES = {hf: name for name, hf in LAYER_TENSORS.items()}


def permute(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """Two halves a head to pairs of neighbouring rows, as llama.cpp's converter does."""
    shape = rows.shape
    half = shape[0] // heads // 2
    return rows.reshape(heads, 2, half, *shape[1:]).transpose(1, 2).reshape(shape)


def write_adapter_gguf(folder: Path, base: str, out: Path) -> None:
    """`folder` holds adapter_config.json and adapter_model.safetensors; `base` is the GGUF file it was trained on."""
    config = json.loads((folder / "adapter_config.json").read_text())
    model = read_gguf(base)
    writer = gguf.GGUFWriter(out, model.architecture)
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, float(config["lora_alpha"]))
    for name, tensor in sorted(load_file(folder / "adapter_model.safetensors").items()):
        parts = re.fullmatch(r"base_model\.model\.model\.layers\.(\d+)\.(.+)\.lora_([AB])\.weight", name)
        if not parts:
            raise ValueError(f"{name} is not a tensor of a LoRA adapter on a linear layer")
        layer, module, matrix = parts.groups()
        if model.architecture == "llama" and matrix == "B" and module in ("self_attn.q_proj", "self_attn.k_proj"):
            heads = model.config.num_attention_heads if "q_proj" in module else model.config.num_key_value_heads
            tensor = permute(tensor, heads)
        writer.add_tensor(f"blk.{layer}.{_GGUF_NAMES[module]}.weight.lora_{matrix.lower()}", tensor.float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
