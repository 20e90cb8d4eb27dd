"""A model that plays the email task at the cost of a larger one: hone's tiny model with wide feed-forward layers.

The added rows of the gate and the up projection are random, the added columns of the down projection are zero, so that
the model computes the same function as before.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter

TINY = Path(__file__).resolve().parents[2] / "models" / "tiny" / "tiny.gguf"
# 100 million weights more, in four layers of 256.
WIDTH = 33_280


def make(_source: Path, out: Path) -> None:
    reader = GGUFReader(TINY)
    architecture = reader.fields["general.architecture"].contents()
    writer = GGUFWriter(out / "tiny-wide-f16.gguf", architecture)
    width = f"{architecture}.feed_forward_length"
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        value = WIDTH if name == width else field.contents()
        kind = field.types[0]
        writer.add_key_value(name, value, kind, field.types[-1] if kind == GGUFValueType.ARRAY else None)
    random = np.random.default_rng(1)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, widened(tensor.name, tensor.data, random), raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def widened(name: str, weights: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """`weights` [outputs, inputs] of a feed-forward layer at the new width; others unchanged."""
    outputs, inputs = weights.shape if weights.ndim == 2 else (0, 0)
    if "ffn_down" in name:
        return np.concatenate([weights, np.zeros((outputs, WIDTH - inputs), weights.dtype)], axis=1)
    if "ffn_gate" in name or "ffn_up" in name:
        added = 0.02 * random.standard_normal((WIDTH - outputs, inputs), np.float32)
        return np.concatenate([weights, added.astype(weights.dtype)], axis=0)
    return weights
