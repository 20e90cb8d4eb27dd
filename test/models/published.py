"""Small models in the form in which their makers publish them: real vocabulary, real template, bf16 safetensors, and
the config.json of before transformers 5. Two narrow layers of random weights; what makes the shape is as in the real
ones: architecture, tied or own output layer, width of the heads, how RoPE is scaled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import published_vocabulary
import tiny
import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

NARROW: dict[str, Any] = dict(
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
)
QWEN = {"rope_theta": 1e6, "sliding_window": None, "use_sliding_window": False, "max_window_layers": 2}
LLAMA3_ROPE = {
    "factor": 32.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}
# By family: classes, what its config.json says beside NARROW, the ends of a text, as its makers publish them.
FAMILIES: dict[str, tuple[type, type, dict[str, Any], dict[str, Any]]] = {
    "qwen2.5": (
        Qwen2ForCausalLM,
        Qwen2Config,
        # It names a window that it does not use.
        QWEN | {"vocab_size": 151936, "max_position_embeddings": 32768, "sliding_window": 32768},
        {"bos_token_id": 151643, "eos_token_id": [151645, 151643], "pad_token_id": 151643},
    ),
    "qwen3": (
        Qwen3ForCausalLM,
        Qwen3Config,
        # Heads wider than hidden_size / heads.
        QWEN
        | {"vocab_size": 151936, "max_position_embeddings": 40960, "head_dim": 32, "rope_scaling": None}
        | {"attention_bias": False},
        {"bos_token_id": 151643, "eos_token_id": [151645, 151643], "pad_token_id": 151643},
    ),
    "llama3.2": (
        LlamaForCausalLM,
        LlamaConfig,
        {"vocab_size": 128256, "max_position_embeddings": 131072, "head_dim": 16, "rope_scaling": LLAMA3_ROPE}
        | {"rms_norm_eps": 1e-5}
        | {"rope_theta": 500000.0, "attention_bias": False, "mlp_bias": False, "pretraining_tp": 1},
        {"bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009]},
    ),
    "llama2": (
        LlamaForCausalLM,
        LlamaConfig,
        {"vocab_size": 32000, "max_position_embeddings": 4096, "rope_theta": 10000.0, "rope_scaling": None}
        | {"rms_norm_eps": 1e-5},
        {"bos_token_id": 1, "eos_token_id": 2},
    ),
    # Mistral 7B v0.2 and later, and a vocabulary of SentencePiece's; heads not hidden_size / heads wide, as in Nemo.
    "mistral": (
        MistralForCausalLM,
        MistralConfig,
        {"vocab_size": 32000, "max_position_embeddings": 32768, "rope_theta": 1e6, "head_dim": 32}
        | {"sliding_window": None, "rms_norm_eps": 1e-5, "attention_dropout": 0.0},
        {"bos_token_id": 1, "eos_token_id": 2},
    ),
    # Gemma 3 1B, with one of its layers that attend to all tokens. Its pieces are Llama 2's.
    "gemma3": (
        Gemma3ForCausalLM,
        Gemma3TextConfig,
        {"vocab_size": 32004, "max_position_embeddings": 32768, "rope_theta": 1e6, "rope_local_base_freq": 10000}
        | {"rope_scaling": None, "num_hidden_layers": 6, "head_dim": 32, "query_pre_attn_scalar": 32}
        | {"sliding_window": 64, "sliding_window_pattern": 6, "rms_norm_eps": 1e-6, "attention_bias": False}
        | {"hidden_activation": "gelu_pytorch_tanh", "attn_logit_softcapping": None, "final_logit_softcapping": None},
        {"bos_token_id": 2, "eos_token_id": [1, 6], "pad_token_id": 0},
    ),
}
# Those that have their own output layer are the larger ones of Qwen's; all of Llama 2's do.
MODELS = {
    "qwen2.5-small": ("qwen2.5", True),
    "qwen2.5-small-untied": ("qwen2.5", False),
    "qwen3-small": ("qwen3", True),
    "qwen3-small-untied": ("qwen3", False),
    "llama3.2-small": ("llama3.2", True),
    "llama2-small": ("llama2", False),
    "mistral-small": ("mistral", False),
    "gemma3-small": ("gemma3", True),
}


def make(source: Path, out: Path) -> None:
    for name, (family, tied) in MODELS.items():
        _write(source, out / name, family, tied)


def _write(source: Path, folder: Path, family: str, tied: bool) -> None:
    causal, config, about, ends = FAMILIES[family]
    end = ends["eos_token_id"]
    published = NARROW | about | {"tie_word_embeddings": tied, "bos_token_id": ends["bos_token_id"]}
    published["eos_token_id"] = end[0] if family.startswith("qwen") else end
    rope = {"rope_type": "default", "rope_theta": about["rope_theta"]} | (about.get("rope_scaling") or {})
    if "rope_local_base_freq" in about:
        local = {"rope_type": "default", "rope_theta": about["rope_local_base_freq"]}
        rope = {"full_attention": rope, "sliding_attention": local}
    own = {key: value for key, value in published.items() if not key.startswith("rope_")}
    model = causal(config(**own, rope_parameters=rope))
    tiny.randomize(model, seed=1)
    model.to(torch.bfloat16).save_pretrained(folder)
    published_vocabulary.write(family, source, folder)
    GenerationConfig(**ends).save_pretrained(folder)
    file = folder / "config.json"
    saved = json.loads(file.read_text()) | published | {"torch_dtype": "bfloat16"}
    for new in ("layer_types", "rope_parameters", "dtype"):
        saved.pop(new, None)
    file.write_text(json.dumps(saved, indent=2))
