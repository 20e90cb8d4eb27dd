"""Writes a PEFT LoRA adapter as the GGUF file that llama.cpp loads.

llama.cpp adds `scale * B @ A` to a weight, with scale = `adapter.lora.alpha` / rank, the rank taken from B's shape.
Other scalings of PEFT (rank-stabilised LoRA, separate alphas for some layers) are multiplied into B. Weights stay in
float32: an adapter is small, and the engine must sample with the values that the learner computes with.

Not supported, and refused: anything other than a low-rank product on the linear layers of a block.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import torch
from safetensors.torch import load_file

from .architectures import LAYERS, MODEL_TYPES, interleave_heads, is_interleaved

# Its groups: name in the base model, layer's number, layer within it, A or B.
PEFT_TENSOR = re.compile(r"base_model\.model\.(model\.layers\.(\d+)\.([\w.]+))\.lora_([AB])\.weight")


class UnsupportedAdapter(ValueError):
    """The adapter contains something that a GGUF adapter cannot express; the message names it."""


@dataclass(frozen=True)
class Base:
    """Facts about the base model that the file needs."""

    architecture: str
    heads: int
    kv_heads: int

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Base:
        """From a Hugging Face config (`model.config.to_dict()`, or config.json)."""
        kind = config["model_type"]
        if kind not in MODEL_TYPES:
            known = ", ".join(MODEL_TYPES)
            raise UnsupportedAdapter(f"adapters for models of type {kind} cannot be written; supported are {known}")
        heads = config["num_attention_heads"]
        return cls(MODEL_TYPES[kind], heads, config.get("num_key_value_heads") or heads)


@dataclass(frozen=True)
class Scaling:
    """The fields of a PEFT config that determine the scaling of a layer's product."""

    alpha: float
    rank_stabilised: bool
    alpha_pattern: Mapping[str, float]

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Scaling:
        """From adapter_config.json, or `LoraConfig.to_dict()`."""
        refused = {"use_dora": "DoRA", "fan_in_fan_out": "transposed weights", "modules_to_save": "modules_to_save"}
        for field, name in refused.items():
            if config.get(field):
                raise UnsupportedAdapter(f"a GGUF adapter cannot hold {name} ({field})")
        if config.get("bias", "none") != "none":
            raise UnsupportedAdapter(f"a GGUF adapter cannot hold trained biases (bias={config['bias']})")
        if config["lora_alpha"] <= 0:
            raise UnsupportedAdapter("lora_alpha must be above 0: llama.cpp takes 0 for a scale of 1")
        return cls(config["lora_alpha"], bool(config.get("use_rslora")), config.get("alpha_pattern") or {})

    def correction(self, layer: str, rank: int) -> float:
        """Factor for B, given that llama.cpp will scale by `alpha` / rank. `layer` is the module's name in the base."""
        # PEFT's own rule: a pattern is a regular expression for the end of a module's name; the first match counts.
        fits = (value for pattern, value in self.alpha_pattern.items() if re.match(rf"(.*\.)?({pattern})$", layer))
        alpha = next(fits, self.alpha)
        stabilised = rank**0.5 if self.rank_stabilised else 1.0
        return alpha / self.alpha * stabilised


def gguf_tensors(state: Mapping[str, torch.Tensor], base: Base, scaling: Scaling) -> dict[str, torch.Tensor]:
    """llama.cpp's names and layout for PEFT's tensors: A is (rank, inputs), B is (outputs, rank), both float32."""
    tensors: dict[str, torch.Tensor] = {}
    for name, weight in state.items():
        match = PEFT_TENSOR.fullmatch(name)
        if not match or match[3] not in LAYERS:
            raise UnsupportedAdapter(f"a GGUF adapter cannot hold {name}: only the linear layers of a block")
        module, block, layer, letter = match.groups()
        weight = weight.detach().to("cpu", torch.float32)
        if letter == "B":
            factor = scaling.correction(module, rank=weight.shape[1])
            weight = weight * factor if factor != 1.0 else weight
            if is_interleaved(base.architecture, layer):
                weight = interleave_heads(weight, base.heads if layer.endswith("q_proj") else base.kv_heads)
        tensors[f"blk.{block}.{LAYERS[layer]}.weight.lora_{letter.lower()}"] = weight.contiguous()
    for name in tensors:
        partner = name[:-1] + ("b" if name.endswith("a") else "a")
        if partner not in tensors:
            raise UnsupportedAdapter(f"the adapter has {name} but no {partner}")
    if not tensors:
        raise UnsupportedAdapter("the adapter is empty")
    # Sorted, so that the same adapter always gives the same file.
    return dict(sorted(tensors.items()))


def write_gguf_adapter(
    state: Mapping[str, torch.Tensor], peft_config: Mapping[str, Any], base: Base, target: Path, name: str
) -> None:
    """Writes `target`. `state` is `get_peft_model_state_dict(model)`; `name` is for people (`general.name`)."""
    scaling = Scaling.of(peft_config)
    tensors = gguf_tensors(state, base, scaling)
    writer = gguf.GGUFWriter(target, base.architecture)
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_name(name)
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, float(scaling.alpha))
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for tensor_name, weight in tensors.items():
        writer.add_tensor(tensor_name, weight.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def convert_folder(peft: Path, base_config: Path, target: Path) -> None:
    """Writes a saved PEFT adapter as GGUF. `base_config` is the base model's config.json."""
    config = json.loads((peft / "adapter_config.json").read_text(encoding="utf-8"))
    base = Base.of(json.loads(base_config.read_text(encoding="utf-8")))
    write_gguf_adapter(load_file(peft / "adapter_model.safetensors"), config, base, target, name=peft.name)
