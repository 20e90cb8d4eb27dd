"""A Hugging Face model with the weights of the GGUF file that the engine runs, so that policy and learner are one
model.

llama.cpp's converter renames tensors, interleaves the rows of Llama's query and key weights (its RoPE rotates
neighbours, Hugging Face's rotates halves), and stores Llama 3's RoPE scaling as a tensor of factors. This reverses it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gguf
import numpy
import torch
import transformers
from transformers import PretrainedConfig

from .architectures import (
    ARCHITECTURES,
    KERNEL,
    LAYER_TENSORS,
    MODEL_TENSORS,
    MULTIPLIERS,
    Architecture,
    interleave_heads,
    is_interleaved,
    offset_of,
)
from .choice import ROPE_FACTORS
from .errors import Refused
from .gguf_header import HeaderReader
from .gguf_tensor import blocks_of, dequantised

LONG_FACTORS = {"rope_factors_long.weight": "long_factor", "rope_factors_short.weight": "short_factor"}
"""LongRoPE's, by transformers' names."""
FACTORS = (ROPE_FACTORS, *LONG_FACTORS)
LAYERS_OF_27B = 62
"""By which llama.cpp knows Gemma 3 27B."""


def config_class(architecture: str) -> type[PretrainedConfig]:
    """transformers' class of configurations; `architecture` is llama.cpp's name."""
    return getattr(transformers, f"{ARCHITECTURES[architecture].prefix}ForCausalLM").config_class


class Unreadable(Refused):
    """A tensor's type cannot be dequantised by the gguf package."""


def hf_name(name: str, architecture: str) -> str:
    """The Hugging Face name of a tensor: blk.0.attn_q.weight → model.layers.0.self_attn.q_proj.weight.

    Raises Refused for tensors that models of the architecture do not have.
    """
    if name in MODEL_TENSORS:
        return MODEL_TENSORS[name]
    modules = LAYER_TENSORS[architecture]
    parts = re.fullmatch(r"blk\.(\d+)\.([\w.]+)\.(weight|bias)", name)
    if not parts or parts[2] not in modules:
        raise Refused(f"the model file has a tensor {name}, which the learner does not know")
    return f"model.layers.{parts[1]}.{modules[parts[2]]}.{parts[3]}"


@dataclass(frozen=True)
class GgufModel:
    """An open model file: its metadata and its tensors."""

    path: str
    architecture: str
    weights: str
    """Type of most of the weights: "f16", "q4_k", ..."""
    config: PretrainedConfig
    rope_factors: torch.Tensor | None
    """Divisors of RoPE's frequencies, [size of a head / 2]."""
    tensors: dict[str, gguf.ReaderTensor]
    """By their Hugging Face names."""

    def tensor(self, name: str) -> torch.Tensor:
        """One tensor in f32, in Hugging Face's shape and order. Raises Unreadable for what gguf cannot dequantise."""
        found = self.tensors[name]
        try:
            values = dequantised(found)
        except NotImplementedError:
            raise Unreadable(
                f"{self.path} has {found.tensor_type.name.lower()} weights, which the learner cannot read; "
                "give --hf-weights with the original weights, or run another file"
            ) from None
        offset = offset_of(self.architecture, name)
        return self._in_order(name, values - offset if offset else values).view(self.shape(name))

    def shape(self, name: str) -> torch.Size:
        """Hugging Face's of a tensor. A convolution of each channel by itself has one input there, which a file leaves
        out."""
        shape = [int(size) for size in reversed(self.tensors[name].shape)]
        return torch.Size([shape[0], 1, shape[1]] if _is_kernel(name) else shape)

    def blocks(self, name: str) -> torch.Tensor:
        """The quantised blocks of a matrix, [rows, bytes of a row], its rows in Hugging Face's order."""
        return self._in_order(name, blocks_of(self.tensors[name]))

    def _in_order(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        if not is_interleaved(self.architecture, name):
            return rows
        heads = self.config.num_attention_heads if ".q_proj." in name else self.config.num_key_value_heads
        return unpermute(rows, heads)


def _is_kernel(name: str) -> bool:
    return name.endswith(f".{KERNEL}.weight")


def unpermute(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """Reorders pairs of neighbouring rows to two halves per head: the inverse of llama.cpp's `permute`."""
    shape = rows.shape
    half = shape[0] // heads // 2
    return rows.reshape(heads, half, 2, *shape[1:]).transpose(1, 2).reshape(shape)


def permute(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """The inverse of `unpermute`, for weights and for biases."""
    return interleave_heads(rows.reshape(len(rows), -1), heads).reshape(rows.shape)


def file_order(base: GgufModel, values: Callable[[str], torch.Tensor]) -> Callable[[gguf.ReaderTensor], torch.Tensor]:
    """For `gguf_write`, from a function that returns a tensor by its Hugging Face name, in Hugging Face's order."""

    def ordered(tensor: gguf.ReaderTensor) -> torch.Tensor:
        if tensor.name in FACTORS:
            return torch.from_numpy(numpy.array(tensor.data, dtype=numpy.float32))
        name = hf_name(tensor.name, base.architecture)
        ours = values(name)
        if is_interleaved(base.architecture, name):
            heads = base.config.num_attention_heads if ".q_proj." in name else base.config.num_key_value_heads
            ours = permute(ours, heads)
        return (ours.squeeze(1) if _is_kernel(name) else ours) + offset_of(base.architecture, name)

    return ordered


def read_gguf(path: str) -> GgufModel:
    """Raises Refused when the file cannot be read or holds a model that the learner does not know."""
    try:
        reader = HeaderReader(path)
    except (OSError, ValueError) as error:
        raise Refused(f"{path} cannot be read as GGUF: {error}") from error

    def value(key: str, default: Any = None) -> Any:
        field = reader.get_field(key)
        return default if field is None else field.contents()

    architecture = value("general.architecture", "?")
    if architecture not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise Refused(f"{path} holds a model of architecture {architecture}; the learner trains {known}")
    if value(f"{architecture}.expert_count"):
        raise Refused(f"{path} is a mixture of experts, which the learner does not train")
    known = FACTORS if ARCHITECTURES[architecture].partly_rotated else (ROPE_FACTORS,)
    factors = {one.name: numpy.array(one.data, numpy.float32) for one in reader.tensors if one.name in known}
    tensors = {hf_name(one.name, architecture): one for one in reader.tensors if one.name not in known}
    config = _config(
        architecture, lambda key, default=None: value(f"{architecture}.{key}", default), tensors, factors, path
    )
    sizes: dict[str, int] = {}
    for tensor in tensors.values():
        sizes[tensor.tensor_type.name] = sizes.get(tensor.tensor_type.name, 0) + int(tensor.n_elements)
    weights = max(sizes, key=lambda kind: sizes[kind]).lower()
    rope_factors = torch.from_numpy(factors[ROPE_FACTORS]) if ROPE_FACTORS in factors else None
    return GgufModel(path, architecture, weights, config, rope_factors, tensors)


def _config(
    architecture: str,
    value: Callable[..., Any],
    tensors: dict[str, gguf.ReaderTensor],
    factors: dict[str, numpy.ndarray],
    path: str,
) -> PretrainedConfig:
    try:
        embedding = tensors["model.embed_tokens.weight"]
        heads = int(value("attention.head_count"))
        width = int(value("embedding_length"))
        kv_heads = value("attention.head_count_kv", heads)
        convolves = ARCHITECTURES[architecture].convolves
        # Those of each layer: a convolution has none.
        of_layers = kv_heads if convolves and isinstance(kv_heads, list) else [kv_heads] * int(value("block_count"))
        settings: dict[str, Any] = {
            "vocab_size": int(embedding.shape[1]),
            "hidden_size": width,
            "intermediate_size": int(value("feed_forward_length")),
            "num_hidden_layers": int(value("block_count")),
            "num_attention_heads": heads,
            "num_key_value_heads": max(int(one) for one in of_layers),
            "head_dim": int(value("attention.key_length", width // heads)),
            ARCHITECTURES[architecture].epsilon: float(value("attention.layer_norm_rms_epsilon")),
            "max_position_embeddings": int(value("context_length")),
            "tie_word_embeddings": "lm_head.weight" not in tensors,
            # Nothing is padded here. Some classes name a token that a vocabulary of another size does not have.
            "pad_token_id": None,
        }
        if convolves:
            settings |= {
                "layer_types": ["full_attention" if heads else "conv" for heads in of_layers],
                "conv_L_cache": int(value("shortconv.l_cache")),
                # The file's width is the width itself.
                "block_auto_adjust_ff_dim": False,
            }
    except (KeyError, TypeError) as error:
        raise Refused(f"{path} does not say what its model looks like: {error}") from error
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": float(value("rope.freq_base", 10000.0))}
    scaling = value("rope.scaling.type", "none")
    if scaling == "linear":
        rope |= {"rope_type": "linear", "factor": float(value("rope.scaling.factor", 1.0))}
    elif scaling == "yarn" and not ARCHITECTURES[architecture].windows:
        rope |= _yarn(value, settings["max_position_embeddings"], path)
    elif scaling != "none":
        raise Refused(f"{path} scales RoPE by {scaling}, which the learner does not")
    if LONG_FACTORS.keys() <= factors.keys():
        rope |= _long_rope(value, factors)
    turned = int(value("rope.dimension_count", settings["head_dim"]))
    if ARCHITECTURES[architecture].partly_rotated:
        rope["partial_rotary_factor"] = turned / settings["head_dim"]
    elif turned != settings["head_dim"]:
        raise Refused(
            f"{path} rotates {turned} of {settings['head_dim']} dimensions of a head; the learner rotates all"
        )
    settings["rope_parameters"] = rope
    window = int(value("attention.sliding_window") or 0)
    if ARCHITECTURES[architecture].windows:
        settings |= _windows(ARCHITECTURES[architecture], value, settings, window, path)
    elif 0 < window < settings["max_position_embeddings"]:
        raise Refused(f"{path} attends through a sliding window, which the learner does not")
    if ARCHITECTURES[architecture].optional_biases:
        settings["attention_bias"] = "model.layers.0.self_attn.q_proj.bias" in tensors
        settings["mlp_bias"] = "model.layers.0.mlp.gate_proj.bias" in tensors
    if ARCHITECTURES[architecture].multipliers:
        # As llama.cpp reads them: 0 and none are no multiplier.
        usual = {"attention_multiplier": settings["head_dim"] ** -0.5}
        settings |= {ours: float(value(key) or usual.get(ours, 1.0)) for ours, key in MULTIPLIERS.items()}
    if not value("rope.scaling.finetuned", True):
        raise Refused(f"{path} has no RoPE, which the learner applies")
    rotated = ARCHITECTURES[architecture].rotated_layers(settings["num_hidden_layers"])
    if rotated is not None:
        settings["no_rope_layers"] = rotated
    return config_class(architecture)(**settings)


def _long_rope(value: Callable[..., Any], factors: dict[str, numpy.ndarray]) -> dict[str, Any]:
    """LongRoPE, of which engine and transformers take the short factors in contexts up to the one that the model was
    first trained with; src/engine/models.ts allows no longer one."""
    rope = {ours: factors[name].tolist() for name, ours in LONG_FACTORS.items()}
    first = value("rope.scaling.original_context_length") or value("context_length")
    rope["original_max_position_embeddings"] = int(first)
    return rope | {"rope_type": "longrope", "attention_factor": float(value("rope.scaling.attn_factor", 1.0))}


def _yarn(value: Callable[..., Any], context: int, path: str) -> dict[str, Any]:
    """YaRN (arXiv 2309.00071) as llama.cpp applies it to conversations of every length: queries and keys are multiplied
    by 0.1 ln(factor) + 1. Raises Refused for variants of other models."""
    usual = {"ext_factor": 1.0, "attn_factor": 1.0, "log_multiplier": 0.0}
    other = next((key for key, one in usual.items() if float(value(f"rope.scaling.yarn_{key}", one)) != one), None)
    if other:
        raise Refused(f"{path} scales RoPE by a variant of YaRN (yarn_{other}), which the learner does not")
    return {
        "rope_type": "yarn",
        "factor": float(value("rope.scaling.factor", 1.0)),
        "original_max_position_embeddings": int(value("rope.scaling.original_context_length", context)),
        "beta_fast": float(value("rope.scaling.yarn_beta_fast", 32.0)),
        "beta_slow": float(value("rope.scaling.yarn_beta_slow", 1.0)),
    }


def _windows(
    about: Architecture, value: Callable[..., Any], settings: dict[str, Any], window: int, path: str
) -> dict[str, Any]:
    """Settings of a model whose layers attend in two ways. Layers without a window alone scale RoPE."""
    layers = about.attending_layers(settings["num_hidden_layers"])
    named = value("attention.sliding_window_pattern", about.windows)
    local = [layer == "sliding_attention" for layer in layers]
    if not window or (named != local if isinstance(named, list) else named != about.windows):
        raise Refused(f"{path} has windows of attention in other layers than the learner")
    if value("final_logit_softcapping"):
        raise Refused(f"{path} bounds its logits (final_logit_softcapping), which the learner does not")
    base = float(value("rope.freq_base_swa", 10000.0))
    # The 27B model alone scales queries by the width that its heads would have, had they no size of their own.
    wide = settings["num_hidden_layers"] == LAYERS_OF_27B
    heads = settings["hidden_size"] // settings["num_attention_heads"]
    return {
        "query_pre_attn_scalar": heads if wide else settings["head_dim"],
        "layer_types": layers,
        "sliding_window": window,
        "rope_parameters": {
            "full_attention": settings["rope_parameters"],
            "sliding_attention": {"rope_type": "default", "rope_theta": base},
        },
    }
