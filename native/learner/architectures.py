"""The architectures that the learner trains: what a file of each holds, and which model of transformers computes it.

src/machine/architectures.ts has what TypeScript needs of them; a test compares the two. Names of tensors are those of
gguf-py's tables.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import gguf
import torch

_INPUTS = (
    ("self_attn", ("q_proj", "k_proj", "v_proj")),
    ("self_attn", ("o_proj",)),
    ("mlp", ("gate_proj", "up_proj")),
    ("mlp", ("down_proj",)),
)
_CONVOLVED = (
    ("self_attn", ("q_proj", "k_proj", "v_proj")),
    ("self_attn", ("out_proj",)),
    ("conv", ("in_proj",)),
    ("conv", ("out_proj",)),
    ("feed_forward", ("w1", "w3")),
    ("feed_forward", ("w2",)),
)
"""LFM2's: a layer has attention or a short convolution."""
FUSED = {("q_proj", "k_proj", "v_proj"): "qkv_proj", ("gate_proj", "up_proj"): "gate_up_proj"}
"""Names of layers that are several in one, by those of their parts."""


@dataclass(frozen=True)
class Norms:
    """Modules of a layer that normalise what its two parts read, and what they add; None: none does there."""

    before_attention: str | None = "input_layernorm"
    after_attention: str | None = None
    before_mlp: str | None = "post_attention_layernorm"
    after_mlp: str | None = None

    def modules(self) -> tuple[str, ...]:
        every = (self.before_attention, self.after_attention, self.before_mlp, self.after_mlp)
        return tuple(name for name in every if name is not None)


@dataclass(frozen=True)
class Architecture:
    kind: gguf.MODEL_ARCH
    prefix: str
    """Of transformers' class: "Qwen2" for Qwen2ForCausalLM."""
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
    """Whether Unsloth's own computation of it is taken."""
    unrotated: int = 0
    """Each so many-th layer has no RoPE; 0: all have it. Constant in llama.cpp, `no_rope_layers` in transformers."""
    norms: Norms = Norms()
    fused: bool = False
    """Whether queries, keys and values are one linear layer, and so gate and up."""
    partly_rotated: bool = False
    """Whether RoPE may rotate a part of a head, and be scaled by LongRoPE's short factors."""
    norm_offset: float = 0.0
    """What a file's weights of norms have above transformers', which adds it when it computes (Gemma)."""
    windows: int = 0
    """Each so many-th layer attends to all tokens, the others through a window, with a RoPE base of their own; 0: no
    layer has a window."""
    convolves: bool = False
    """Whether layers may have a short convolution in the place of attention."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Names of linear layers by those that adapters' targets have, where they are others."""
    head_norms: tuple[str, ...] = ("self_attn.q_norm", "self_attn.k_norm")
    epsilon: str = "rms_norm_eps"
    """The configuration's name for what norms add to a mean of squares."""

    @property
    def inputs(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The linear layers of each input of a layer, in order: the module that they are in, and their names. With
        convolutions a layer has those of one of the modules before the feed-forward part."""
        inputs = _CONVOLVED if self.convolves else _INPUTS
        return tuple((part, (FUSED[names],) if self.fused and names in FUSED else names) for part, names in inputs)

    @property
    def linears(self) -> tuple[str, ...]:
        """Of a layer, which an adapter may be on."""
        return tuple(f"{part}.{name}" for part, names in self.inputs for name in names)

    def adapted(self, targets: Sequence[str]) -> list[str]:
        """The names of linear layers that have adapters where these parts are to have them. Raises ValueError."""
        names = [self.renamed.get(name, name) for name in targets]
        # A convolution's input is one layer, as queries, keys and values of attention are three.
        if self.convolves and {"q_proj", "k_proj", "v_proj"} <= {*names}:
            names.append("in_proj")
        for parts, joined in FUSED.items() if self.fused else ():
            given = [part for part in parts if part in names]
            if given and len(given) < len(parts):
                raise ValueError(f"{', '.join(parts)} are one layer of this model: name all of them, or none")
            names = [name for name in names if name not in parts] + ([joined] if given else [])
        return names

    def attending_layers(self, layers: int) -> list[str]:
        """As `layer_types`."""
        return ["sliding_attention" if (layer + 1) % self.windows else "full_attention" for layer in range(layers)]

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
    "olmo2": Architecture(
        gguf.MODEL_ARCH.OLMO2,
        "Olmo2",
        ("olmo2",),
        unsloth=False,
        norms=Norms(None, "post_attention_layernorm", None, "post_feedforward_layernorm"),
    ),
    "phi3": Architecture(gguf.MODEL_ARCH.PHI3, "Phi3", ("phi3",), unsloth=False, fused=True, partly_rotated=True),
    "gemma3": Architecture(
        gguf.MODEL_ARCH.GEMMA3,
        "Gemma3",
        ("gemma3_text",),
        unsloth=False,
        norms=Norms(
            "input_layernorm",
            "post_attention_layernorm",
            "pre_feedforward_layernorm",
            "post_feedforward_layernorm",
        ),
        norm_offset=1.0,
        windows=6,
    ),
    "lfm2": Architecture(
        gguf.MODEL_ARCH.LFM2,
        "Lfm2",
        ("lfm2",),
        unsloth=False,
        norms=Norms(before_attention="operator_norm", before_mlp="ffn_norm"),
        convolves=True,
        renamed={"o_proj": "out_proj", "gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"},
        head_norms=("self_attn.q_layernorm", "self_attn.k_layernorm"),
        epsilon="norm_eps",
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

KERNEL = "conv.conv"
"""A layer's module with the weights of its convolution."""
_WHOLE = {
    gguf.MODEL_ARCH.LLAMA: ("model.embed_tokens", "model.norm", "lm_head"),
    gguf.MODEL_ARCH.LFM2: ("model.embedding_norm",),
}
_BLOCK = "blk.0."


def _of_a_layer(kind: gguf.MODEL_ARCH, modules: tuple[str, ...]) -> dict[str, str]:
    """Those modules of a layer that the architecture has, by llama.cpp's names."""
    table = gguf.get_tensor_name_map(kind, 1)
    names = {module: table.get_name(f"model.layers.0.{module}") for module in modules}
    return {name.removeprefix(_BLOCK): module for module, name in names.items() if name is not None}


LAYER_TENSORS = {
    name: _of_a_layer(one.kind, (*one.linears, *one.head_norms, *one.norms.modules(), KERNEL))
    for name, one in ARCHITECTURES.items()
}
"""Modules of a layer by architecture and llama.cpp's names."""
LAYERS = {
    module: name
    for architecture, names in LAYER_TENSORS.items()
    for name, module in names.items()
    if module in ARCHITECTURES[architecture].linears
}
"""llama.cpp's names by PEFT's: of the linear layers of a block, which an adapter may be on."""
MODEL_TENSORS = {
    f"{gguf.get_tensor_name_map(kind, 1).get_name(module)}.weight": f"{module}.weight"
    for kind, modules in _WHOLE.items()
    for module in modules
}
"""Tensors outside of layers, by llama.cpp's names."""


def last_norm(decoder: torch.nn.Module) -> torch.nn.Module:
    """What normalises the last hidden states of a decoder of transformers."""
    norm = getattr(decoder, "norm", None)
    return decoder.embedding_norm if norm is None else norm


def offset_of(architecture: str, name: str) -> float:
    """What the tensor has in a file of `architecture` above the one in transformers; `name` is Hugging Face's."""
    return ARCHITECTURES[architecture].norm_offset if name.endswith("norm.weight") else 0.0


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
