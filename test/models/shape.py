"""A model in the shape of Qwen2-0.5B with random weights and the real Qwen2 vocabulary, written straight as GGUF."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
from vocabulary import TEMPLATE

NAME = "qwen2-0.5b-shape"
LAYERS, HIDDEN, INNER, HEADS, KV_HEADS, CONTEXT, VOCABULARY = 24, 896, 4864, 14, 2, 32768, 151936
KV_WIDTH = HIDDEN // HEADS * KV_HEADS
RANKS = (8, 16, 32)

# Weights of a layer: output width, input width.
LINEARS = {
    "attn_q": (HIDDEN, HIDDEN),
    "attn_k": (KV_WIDTH, HIDDEN),
    "attn_v": (KV_WIDTH, HIDDEN),
    "attn_output": (HIDDEN, HIDDEN),
    "ffn_gate": (INNER, HIDDEN),
    "ffn_up": (INNER, HIDDEN),
    "ffn_down": (HIDDEN, INNER),
}


def write_model(vocabulary: Path, template: Path, target: Path) -> None:
    """`vocabulary`: a GGUF file that has a tokenizer and no weights. `template`: a chat template with tools."""
    random = np.random.default_rng(1)

    def normal(*shape: int) -> np.ndarray:
        return random.standard_normal(shape, dtype=np.float32)

    writer = gguf.GGUFWriter(target, "qwen2")
    writer.add_name(NAME)
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(1_000_000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    for field in gguf.GGUFReader(vocabulary).fields.values():
        if field.name.startswith("tokenizer.") and field.name != gguf.Keys.Tokenizer.CHAT_TEMPLATE:
            kind, *item = field.types
            writer.add_key_value(field.name, field.contents(), kind, item[0] if item else None)
    # The vocabulary's own template knows no tools.
    writer.add_chat_template(template.read_text(encoding="utf-8"))
    # What ends a turn, as in Qwen2's instruct models; the base vocabulary names the end of the document.
    writer.add_eot_token_id(151645)

    # The output matrix is the embedding's: logits then have a standard deviation of about 2.
    writer.add_tensor("token_embd.weight", (normal(VOCABULARY, HIDDEN) * (2 / HIDDEN**0.5)).astype(np.float16))
    writer.add_tensor("output_norm.weight", np.ones(HIDDEN, dtype=np.float32))
    for layer in range(LAYERS):
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{norm}.weight", np.ones(HIDDEN, dtype=np.float32))
        for name, (outputs, inputs) in LINEARS.items():
            weight = (normal(outputs, inputs) / inputs**0.5).astype(np.float16)
            writer.add_tensor(f"blk.{layer}.{name}.weight", weight)
            if name in ("attn_q", "attn_k", "attn_v"):
                writer.add_tensor(f"blk.{layer}.{name}.bias", 0.1 * normal(outputs))
    finish(writer)


def write_adapter(target: Path, rank: int) -> None:
    """A random adapter on all linear layers. It changes little and serves to measure speed."""
    random = np.random.default_rng(rank)
    writer = gguf.GGUFWriter(target, "qwen2")
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, float(2 * rank))
    for layer in range(LAYERS):
        for name, (outputs, inputs) in LINEARS.items():
            for letter, size in (("a", (rank, inputs)), ("b", (outputs, rank))):
                weight = 0.01 * random.standard_normal(size, dtype=np.float32)
                writer.add_tensor(f"blk.{layer}.{name}.weight.lora_{letter}", weight)
    finish(writer)


def finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make(source: Path, out: Path) -> None:
    models = source / "models"
    template = models / "templates" / TEMPLATE["qwen2"]
    write_model(models / "ggml-vocab-qwen2.gguf", template, out / f"{NAME}-f16.gguf")
    for rank in RANKS:
        write_adapter(out / f"{NAME}-adapter-r{rank}.gguf", rank)
