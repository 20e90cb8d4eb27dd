"""The architectures that the learner trains: what a file of each holds, and which model of transformers computes it.

src/learn/architectures.ts has what TypeScript needs of them; a test compares the two. Names of tensors are those of
gguf-py's tables.
"""

from dataclasses import dataclass

import gguf
import torch


@dataclass(frozen=True)
class Architecture:
    kind: gguf.MODEL_ARCH
    prefix: str
    """Of transformers' classes: "Qwen2" for Qwen2Config and Qwen2ForCausalLM."""
    model_types: tuple[str, ...]
    """`model_type` of the configurations whose computation this is; the first is that of `prefix`. llama.cpp's
    converter makes files of this architecture from all of them."""
    interleaved: bool = False
    """Whether a file has the rows of query and key weights interleaved: llama.cpp rotates neighbours there,
    transformers the two halves of a head."""
    optional_biases: bool = False
    """Whether the configuration has to say which layers have biases."""
    multipliers: bool = False
    """Whether embeddings, scores of attention, what a layer adds, and logits are multiplied by numbers of the file."""
    unsloth: bool = True
    """Whether Unsloth's own computation of it, on CUDA, is taken."""
    unrotated: int = 0
    """Each so many-th layer has no RoPE; 0: all have it. Constant in llama.cpp, `no_rope_layers` in transformers."""

    def rotated_layers(self, layers: int) -> list[int] | None:
        """1 for each layer with RoPE, 0 for others, as `no_rope_layers`; None where all have it."""
        return [int((layer + 1) % self.unrotated != 0) for layer in range(layers)] if self.unrotated else None


ARCHITECTURES = {
    "qwen2": Architecture(gguf.MODEL_ARCH.QWEN2, "Qwen2", ("qwen2",)),
    "qwen3": Architecture(gguf.MODEL_ARCH.QWEN3, "Qwen3", ("qwen3",)),
    # Mistral is Llama but for its window of attention, and no model with a window is taken.
    "llama": Architecture(gguf.MODEL_ARCH.LLAMA, "Llama", ("llama", "mistral"), interleaved=True, optional_biases=True),
    "smollm3": Architecture(
        gguf.MODEL_ARCH.SMOLLM3,
        "SmolLM3",
        ("smollm3",),
        interleaved=True,
        optional_biases=True,
        unsloth=False,
        unrotated=4,
    ),
    "granite": Architecture(
        gguf.MODEL_ARCH.GRANITE,
        "Granite",
        ("granite",),
        interleaved=True,
        optional_biases=True,
        unsloth=False,
        multipliers=True,
    ),
}
"""By llama.cpp's names, as a file has them in `general.architecture`."""

MODEL_TYPES = {kind: name for name, one in ARCHITECTURES.items() for kind in one.model_types}
"""llama.cpp's name of the architecture by `model_type` of a configuration of Hugging Face's."""

MULTIPLIERS = {
    "embedding_multiplier": "embedding_scale",
    "attention_multiplier": "attention.scale",
    "residual_multiplier": "residual_scale",
    "logits_scaling": "logit_scale",
}
"""llama.cpp's keys by transformers' names. Logits are divided by theirs."""

_LINEARS = (
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
)
_NORMS = ("input_layernorm", "self_attn.q_norm", "self_attn.k_norm", "post_attention_layernorm")
_WHOLE = ("model.embed_tokens", "model.norm", "lm_head")
_BLOCK = "blk.0."


def _gguf_name(module: str) -> str:
    """llama.cpp's name of a module of transformers', from the first architecture that has it."""
    tables = (gguf.get_tensor_name_map(one.kind, 1) for one in ARCHITECTURES.values())
    return next(name for table in tables if (name := table.get_name(module)) is not None)


def _of_a_layer(modules: tuple[str, ...]) -> dict[str, str]:
    return {module: _gguf_name(f"model.layers.0.{module}").removeprefix(_BLOCK) for module in modules}


LAYERS = _of_a_layer(_LINEARS)
"""llama.cpp's names by PEFT's: of the linear layers of a block, which an adapter may be on."""
LAYER_TENSORS = {name: module for module, name in _of_a_layer(_LINEARS + _NORMS).items()}
"""Modules of a layer by llama.cpp's names."""
MODEL_TENSORS = {f"{_gguf_name(module)}.weight": f"{module}.weight" for module in _WHOLE}
"""Tensors outside of layers, by llama.cpp's names."""


def is_interleaved(architecture: str, name: str) -> bool:
    """Whether a file of `architecture` has the rows of this tensor interleaved; `name` is Hugging Face's, with or
    without "weight" or "bias"."""
    module = name.removesuffix(".weight").removesuffix(".bias")
    return ARCHITECTURES[architecture].interleaved and module.endswith(("self_attn.q_proj", "self_attn.k_proj"))


def interleave_heads(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Reorders the output rows of a query or key weight, (heads * size, n), from Hugging Face's rotation (first half of
    a head with the second) to that of llama.cpp's `llama` architecture (neighbours)."""
    rows, columns = weight.shape
    halves = weight.reshape(heads, 2, rows // heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns)
