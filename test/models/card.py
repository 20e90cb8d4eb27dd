"""Models without weights: shape, vocabulary and types of Qwen2.5's, for a card that computes nothing (bench/card).

A file has its header, and its tensors are a hole that takes no space on the disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import gguf
from vocabulary import TEMPLATE

CONTEXT, HEAD, RANK = 32768, 128, 8


@dataclass(frozen=True)
class Shape:
    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    vocabulary: int
    tied: bool

    @property
    def head(self) -> int:
        return self.hidden // self.heads

    def linears(self) -> dict[str, tuple[int, int]]:
        """Output and input width of a layer's matrices."""
        kv = self.head * self.kv_heads
        return {
            "attn_q": (self.hidden, self.hidden),
            "attn_k": (kv, self.hidden),
            "attn_v": (kv, self.hidden),
            "attn_output": (self.hidden, self.hidden),
            "ffn_gate": (self.inner, self.hidden),
            "ffn_up": (self.inner, self.hidden),
            "ffn_down": (self.hidden, self.inner),
        }


# From config.json of Qwen2.5-0.5B, -1.5B and -7B.
SHAPES = {
    "0.5b": Shape(24, 896, 4864, 14, 2, 151936, True),
    "1.5b": Shape(28, 1536, 8960, 12, 2, 151936, True),
    "7b": Shape(28, 3584, 18944, 28, 4, 152064, False),
}
TYPES = {"f16": gguf.GGMLQuantizationType.F16, "bf16": gguf.GGMLQuantizationType.BF16}
F32 = gguf.GGMLQuantizationType.F32


def write(
    writer: gguf.GGUFWriter, target: Path, tensors: dict[str, tuple[tuple[int, ...], gguf.GGMLQuantizationType]]
) -> None:
    """Tensors are given as rows and columns with their type."""
    import numpy as np

    for name, (shape, kind) in tensors.items():
        count = int(np.prod(shape))
        size = count * (4 if kind == F32 else 2)
        writer.add_tensor_info(name, shape, np.dtype(np.float32), size, raw_dtype=None if kind == F32 else kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    file = writer.fout[0]
    file.flush()
    align = writer.data_alignment
    padded = lambda size: (size + align - 1) // align * align  # noqa: E731
    end = padded(file.tell())
    for shape, kind in tensors.values():
        end += padded(int(np.prod(shape)) * (4 if kind == F32 else 2))
    writer.close()
    with target.open("r+b") as hole:
        hole.truncate(end)


def write_model(source: Path, name: str, kind: str, target: Path) -> None:
    shape = SHAPES[name]
    writer = gguf.GGUFWriter(target, "qwen2")
    writer.add_name(f"card-{name}")
    writer.add_block_count(shape.layers)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_rope_freq_base(1_000_000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16 if kind == "f16" else gguf.LlamaFileType.MOSTLY_BF16)
    models = source / "models"
    for field in gguf.GGUFReader(models / "ggml-vocab-qwen2.gguf").fields.values():
        if field.name.startswith("tokenizer.") and field.name != gguf.Keys.Tokenizer.CHAT_TEMPLATE:
            form, *item = field.types
            contents = field.contents()
            if field.name == gguf.Keys.Tokenizer.LIST:
                # Larger models pad the vocabulary.
                contents = [*contents, *(f"[PAD{i}]" for i in range(len(contents), shape.vocabulary))]
            if field.name == gguf.Keys.Tokenizer.TOKEN_TYPE:
                contents = [*contents, *([int(gguf.TokenType.UNUSED)] * (shape.vocabulary - len(contents)))]
            writer.add_key_value(field.name, contents, form, item[0] if item else None)
    writer.add_chat_template((models / "templates" / TEMPLATE["qwen2"]).read_text(encoding="utf-8"))
    writer.add_eot_token_id(151645)
    half = TYPES[kind]
    tensors = {
        "token_embd.weight": ((shape.vocabulary, shape.hidden), half),
        "output_norm.weight": ((shape.hidden,), F32),
    }
    if not shape.tied:
        tensors["output.weight"] = ((shape.vocabulary, shape.hidden), half)
    for layer in range(shape.layers):
        for norm in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{layer}.{norm}.weight"] = ((shape.hidden,), F32)
        for linear, size in shape.linears().items():
            tensors[f"blk.{layer}.{linear}.weight"] = (size, half)
            if linear in ("attn_q", "attn_k", "attn_v"):
                tensors[f"blk.{layer}.{linear}.bias"] = ((size[0],), F32)
    write(writer, target, tensors)


def write_adapter(name: str, target: Path) -> None:
    """As hone's learner writes them: all linear layers, f32."""
    shape = SHAPES[name]
    writer = gguf.GGUFWriter(target, "qwen2")
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, float(2 * RANK))
    tensors = {}
    for layer in range(shape.layers):
        for linear, (outputs, inputs) in shape.linears().items():
            tensors[f"blk.{layer}.{linear}.weight.lora_a"] = ((RANK, inputs), F32)
            tensors[f"blk.{layer}.{linear}.weight.lora_b"] = ((outputs, RANK), F32)
    write(writer, target, tensors)


def make(source: Path, out: Path) -> None:
    for name in SHAPES:
        for kind in TYPES:
            write_model(source, name, kind, out / f"card-{name}-{kind}.gguf")
        write_adapter(name, out / f"card-{name}-adapter-r{RANK}.gguf")
