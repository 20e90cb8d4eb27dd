"""Small models of eleven families with random weights, scaled so that their predictions are neither flat nor certain:
then every weight matters to a log-probability, and a wrong one shows."""

from __future__ import annotations

import json
from pathlib import Path

import torch
import vocabulary
from peft import LoraConfig, get_peft_model
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GraniteConfig,
    GraniteForCausalLM,
    Lfm2Config,
    Lfm2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Olmo2Config,
    Olmo2ForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    PretrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    SmolLM3Config,
    SmolLM3ForCausalLM,
)

CONTEXT = 8192
SHAPE = dict(
    vocab_size=vocabulary.VOCABULARY_SIZE,
    hidden_size=128,
    intermediate_size=352,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=CONTEXT,
)
# The standard deviation of the logits: a perplexity of about 100 in a vocabulary of 1024.
LOGIT_SPREAD = 2.5

PRE = {
    "qwen2": "qwen2",
    "qwen3": "qwen2",
    "llama": "llama-bpe",
    "mistral": "llama-bpe",
    "smollm3": "llama-bpe",
    "granite": "qwen2",
    "olmo2": "qwen2",
    "gemma3": "qwen2",
    "phi3": "qwen2",
    "lfm2": "llama-bpe",
    "yarn": "qwen2",
}
LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
OWN_LINEARS = {
    "phi3": ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"],
    "lfm2": ["q_proj", "k_proj", "v_proj", "in_proj", "out_proj", "w1", "w3", "w2"],
}
"""Of configurations whose linear layers have other names."""


def build(family: str) -> PreTrainedModel:
    rope = {"rope_type": "default", "rope_theta": 1_000_000.0}
    if family == "qwen2":
        # Tied, as Qwen2.5-0.5B is.
        return Qwen2ForCausalLM(Qwen2Config(**SHAPE, tie_word_embeddings=True, rope_parameters=rope))
    if family == "qwen3":
        # Heads wider than hidden_size / heads, as in Qwen3-0.6B.
        return Qwen3ForCausalLM(Qwen3Config(**SHAPE, head_dim=64, tie_word_embeddings=True, rope_parameters=rope))
    if family == "mistral":
        # Heads narrower than hidden_size / heads, as in Mistral Nemo.
        own = {"head_dim": 16, "sliding_window": None, "rms_norm_eps": 1e-5}
        return MistralForCausalLM(MistralConfig(**SHAPE, **own, tie_word_embeddings=False, rope_parameters=rope))
    if family == "smollm3":
        # The last of four layers has no RoPE. Its usual padding token is not in this vocabulary.
        return SmolLM3ForCausalLM(
            SmolLM3Config(**SHAPE, pad_token_id=None, tie_word_embeddings=True, rope_parameters=rope)
        )
    if family == "granite":
        # Granite 3.3's numbers leave the embeddings the upper hand over these random layers.
        own = {"embedding_multiplier": 3.0, "residual_multiplier": 0.6, "attention_multiplier": 0.125}
        own["logits_scaling"] = 0.8
        return GraniteForCausalLM(GraniteConfig(**SHAPE, **own, tie_word_embeddings=False, rope_parameters=rope))
    if family == "olmo2":
        return Olmo2ForCausalLM(Olmo2Config(**SHAPE, tie_word_embeddings=False, rope_parameters=rope))
    if family == "yarn":
        # As Qwen2.5 in contexts beyond 32,768 tokens: most of a head's dimensions are stretched.
        rope |= {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": CONTEXT}
        return Qwen2ForCausalLM(Qwen2Config(**SHAPE, tie_word_embeddings=True, rope_parameters=rope))
    if family == "gemma3":
        # The last of six layers attends to all tokens and stretches RoPE, as in Gemma 3 4B; the others to the last 24,
        # fewer than the tests' conversations have.
        shape = SHAPE | {"num_hidden_layers": 6, "head_dim": 64, "query_pre_attn_scalar": 64, "sliding_window": 24}
        ropes = {
            "full_attention": rope | {"rope_type": "linear", "factor": 8.0},
            "sliding_attention": rope | {"rope_theta": 10_000.0},
        }
        return Gemma3ForCausalLM(Gemma3TextConfig(**shape, tie_word_embeddings=True, rope_parameters=ropes))
    if family == "phi3":
        # As Phi 4 mini: three quarters of a head are rotated, by short factors in the context of the first training.
        count = SHAPE["hidden_size"] // SHAPE["num_attention_heads"] * 3 // 8
        rope |= {"rope_type": "longrope", "partial_rotary_factor": 0.75}
        rope |= {
            "short_factor": [1 + 0.05 * one for one in range(count)],
            "long_factor": [4.0 + one for one in range(count)],
        }
        first = {"original_max_position_embeddings": CONTEXT // 8}
        rope |= first
        return Phi3ForCausalLM(
            Phi3Config(**SHAPE, **first, pad_token_id=None, tie_word_embeddings=True, rope_parameters=rope)
        )
    if family == "lfm2":
        # The width between layers follows from one that is named, as in LFM2's: 352 of 512.
        shape = SHAPE | {"intermediate_size": 512, "block_multiple_of": 32, "block_ffn_dim_multiplier": 1.0}
        layers = {"layer_types": ["conv", "full_attention", "conv", "full_attention"], "conv_L_cache": 3}
        ends = {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
        return Lfm2ForCausalLM(Lfm2Config(**shape, **layers, **ends, tie_word_embeddings=True, rope_parameters=rope))
    # Llama 3.2's stretched rotation, which is a tensor of its own in a GGUF file.
    rope = {
        "rope_type": "llama3",
        "rope_theta": 500_000.0,
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": CONTEXT // 8,
    }
    return LlamaForCausalLM(LlamaConfig(**SHAPE, head_dim=32, tie_word_embeddings=False, rope_parameters=rope))


def norm_weight(model_type: str, name: str, noise: torch.Tensor) -> torch.Tensor:
    if model_type != "gemma3_text":
        return 1 + 0.2 * noise
    # Gemma adds 1, and so does llama.cpp's converter, in f16 to weights in f16: the sums are numbers that this holds.
    # What layers add is normalised, and would be little beside the embeddings, which are also the output layer: a token
    # would predict itself.
    return ((3.0 if ".post_" in name else 1.0) + 0.2 * noise).half().float() - 1


def randomize(model: PreTrainedModel, seed: int) -> None:
    """Random weights that float16 holds exactly, so that every format of the model has the same ones."""
    generator = torch.Generator().manual_seed(seed)
    hidden = model.config.hidden_size
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        if name.endswith("norm.weight"):
            value = norm_weight(model.config.model_type, name, noise)
        elif name.endswith("bias"):
            value = 0.3 * noise
        elif "embed_tokens" in name or "lm_head" in name:
            value = LOGIT_SPREAD / hidden**0.5 * noise
        else:
            value = noise / weight.shape[-1] ** 0.5
        weight.data = value.half().float()


def adapt(model: PreTrainedModel, folder: Path, seed: int, rank: int) -> None:
    """A random LoRA adapter on all linear layers, strong enough to change what the model says, as a PEFT folder."""
    linears = OWN_LINEARS.get(model.config.model_type, LINEARS)
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=linears, task_type="CAUSAL_LM")
    adapted = get_peft_model(model, config)
    generator = torch.Generator().manual_seed(seed)
    for name, weight in adapted.named_parameters():
        if ".lora_A." in name:
            weight.data = torch.randn(weight.shape, generator=generator) / weight.shape[1] ** 0.5
        elif ".lora_B." in name:
            weight.data = 0.2 * torch.randn(weight.shape, generator=generator) / rank**0.5
    adapted.save_pretrained(folder)
    adapted.unload()


def make(family: str, source: Path, folder: Path) -> PretrainedConfig:
    """Writes the Hugging Face folder `folder` and two PEFT adapters beside it, ranks 8 and 16."""
    model = build(family)
    randomize(model, seed=1)
    tokenizer = vocabulary.make("qwen2" if family == "yarn" else family, PRE[family], source, CONTEXT)
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        setattr(model.config, name, getattr(tokenizer, name))
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    tokenizer.save_pretrained(folder)
    if family == "phi3":
        # By which llama.cpp's converter tells Phi 4's vocabulary from Phi 3's pieces.
        file = folder / "tokenizer_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"tokenizer_class": "GPT2Tokenizer"}, indent=2))
    model.half().save_pretrained(folder)
    for number, rank in ((1, 8), (2, 16)):
        adapt(model.float(), folder.with_name(f"{folder.name}-adapter-{number}"), seed=10 + number, rank=rank)
    return model.config
