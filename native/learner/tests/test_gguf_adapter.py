"""The GGUF adapter against llama.cpp's converter and against PEFT's own arithmetic."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from learner.architectures import ARCHITECTURES, LAYERS, interleave_heads
from learner.gguf_adapter import (
    Base,
    Scaling,
    UnsupportedAdapter,
    convert_folder,
    gguf_tensors,
    write_gguf_adapter,
)
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from transformers import AutoModelForCausalLM

# What the converter derives from the name of the folder and from its README: for people, not for llama.cpp.
DESCRIPTIVE = ("general.name", "general.basename", "general.version", "general.base_model.", "general.tags")


def read(path: Path) -> tuple[dict[str, object], dict[str, tuple[str, np.ndarray]]]:
    """Metadata (type and value), and tensors by name (type and values)."""
    reader = gguf.GGUFReader(path)
    metadata = {
        field.name: (field.types, field.contents())
        for field in reader.fields.values()
        if not field.name.startswith(("GGUF.", *DESCRIPTIVE))
    }
    return metadata, {tensor.name: (tensor.tensor_type.name, tensor.data.copy()) for tensor in reader.tensors}


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(
    "family", ["qwen2", "qwen3", "llama", "mistral", "smollm3", "granite", "olmo2", "gemma3", "phi3", "lfm2"]
)
def test_equals_what_llama_cpps_converter_writes(models: Path, tmp_path: Path, family: str, number: int):
    adapter = models / f"{family}-tiny-adapter-{number}"
    ours = tmp_path / "ours.gguf"
    convert_folder(adapter, models / f"{family}-tiny" / "config.json", ours)

    metadata, tensors = read(ours)
    their_metadata, their_tensors = read(adapter.with_name(f"{adapter.name}.gguf"))
    assert metadata == their_metadata
    assert set(tensors) == set(their_tensors)
    for name, (kind, values) in tensors.items():
        their_kind, their_values = their_tensors[name]
        assert kind == their_kind
        np.testing.assert_array_equal(values, their_values, err_msg=name)


@pytest.mark.parametrize(
    "settings",
    [
        {"lora_alpha": 12},
        {"lora_alpha": 12, "use_rslora": True},
        {"lora_alpha": 12, "alpha_pattern": {"o_proj": 3, r"layers\.1\..*": 24}, "rank_pattern": {"down_proj": 2}},
    ],
    ids=["plain", "rank-stabilised", "patterns"],
)
@pytest.mark.parametrize(
    "family", ["qwen2", "llama", "mistral", "smollm3", "granite", "olmo2", "gemma3", "phi3", "lfm2"]
)
def test_llama_cpps_product_is_what_peft_adds_to_the_weight(models: Path, tmp_path: Path, family: str, settings: dict):
    base = AutoModelForCausalLM.from_pretrained(models / f"{family}-tiny", dtype=torch.float32)
    shape = Base.of(base.config.to_dict())
    every = ARCHITECTURES[shape.architecture].linears
    layers = [module for module in every if module.split(".")[-1] not in ("v_proj", "gate_proj", "up_proj", "w1")]
    linears = sorted({module.split(".")[-1] for module in layers})
    assert len(linears) > 2
    renamed = ARCHITECTURES[shape.architecture].renamed
    settings = {
        name: {renamed.get(key, key): one for key, one in value.items()} if isinstance(value, dict) else value
        for name, value in settings.items()
    }
    model = get_peft_model(base, LoraConfig(r=4, target_modules=linears, task_type="CAUSAL_LM", **settings))
    torch.manual_seed(1)
    for name, weight in model.named_parameters():
        if ".lora_B." in name:
            weight.data.normal_()
    config = model.peft_config["default"].to_dict()
    write_gguf_adapter(get_peft_model_state_dict(model), config, shape, tmp_path / "a.gguf", name="a")

    metadata, tensors = read(tmp_path / "a.gguf")
    alpha = metadata["adapter.lora.alpha"][1]
    compared = 0
    for number, block in enumerate(model.base_model.model.model.layers):
        modules = dict(block.named_modules())
        for ours in (name for name in layers if name in modules):
            a, b = (tensors[f"blk.{number}.{LAYERS[ours]}.weight.lora_{letter}"][1] for letter in "ab")
            product = torch.from_numpy(alpha / b.shape[1] * b @ a)
            expected = modules[ours].get_delta_weight("default").detach()
            if ARCHITECTURES[shape.architecture].interleaved and ours.endswith(("q_proj", "k_proj")):
                expected = interleave_heads(expected, shape.heads if ours.endswith("q_proj") else shape.kv_heads)
            torch.testing.assert_close(product, expected, rtol=1e-5, atol=1e-6)
            compared += 1
    assert 2 * compared == len(tensors)


def test_a_reloaded_peft_folder_gives_the_same_file_as_the_model_that_saved_it(models: Path, tmp_path: Path):
    folder = models / "qwen2-tiny-adapter-1"
    base = AutoModelForCausalLM.from_pretrained(models / "qwen2-tiny", dtype=torch.float32)
    model = PeftModel.from_pretrained(base, folder)
    state = get_peft_model_state_dict(model)
    config = json.loads((folder / "adapter_config.json").read_text())
    write_gguf_adapter(state, config, Base.of(base.config.to_dict()), tmp_path / "live.gguf", name=folder.name)
    convert_folder(folder, models / "qwen2-tiny" / "config.json", tmp_path / "saved.gguf")
    assert (tmp_path / "live.gguf").read_bytes() == (tmp_path / "saved.gguf").read_bytes()


def test_refuses_what_the_format_cannot_hold():
    base = Base("qwen2", heads=2, kv_heads=2)
    scaling = Scaling.of({"lora_alpha": 8})
    a, b = torch.zeros(2, 8), torch.zeros(8, 2)
    prefix = "base_model.model.model.layers.0.self_attn.q_proj"
    with pytest.raises(UnsupportedAdapter, match="lm_head"):
        gguf_tensors({"base_model.model.lm_head.lora_A.weight": a}, base, scaling)
    with pytest.raises(UnsupportedAdapter, match=r"no blk\.0\.attn_q\.weight\.lora_b"):
        gguf_tensors({f"{prefix}.lora_A.weight": a}, base, scaling)
    with pytest.raises(UnsupportedAdapter, match="empty"):
        gguf_tensors({}, base, scaling)
    assert len(gguf_tensors({f"{prefix}.lora_A.weight": a, f"{prefix}.lora_B.weight": b}, base, scaling)) == 2
    for field, value in {"use_dora": True, "bias": "all", "modules_to_save": ["lm_head"], "lora_alpha": 0}.items():
        with pytest.raises(UnsupportedAdapter, match=field):
            Scaling.of({"lora_alpha": 8, field: value})
    with pytest.raises(UnsupportedAdapter, match="gemma"):
        Base.of({"model_type": "gemma", "num_attention_heads": 4})
