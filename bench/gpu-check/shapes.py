"""Writes a Qwen2 model of random weights in a given shape, and an adapter on it: `shapes.py LLAMA_SOURCE OUT SHAPE`.

Shapes: 1.5b, and 7b-8, eight layers of Qwen2-7B's width. That of 0.5B is one of the test models.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "test" / "models"))

import shape

# Layers, width, width between layers, heads, heads of keys and values.
SHAPES = {"1.5b": (28, 1536, 8960, 12, 2), "7b-8": (8, 3584, 18944, 28, 4)}
RANK = 16


def main() -> None:
    source, out, name = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    layers, hidden, inner, heads, kv_heads = SHAPES[name]
    kv_width = hidden // heads * kv_heads
    shape.NAME = f"qwen2-{name}-shape"
    shape.LAYERS, shape.HIDDEN, shape.INNER, shape.HEADS, shape.KV_HEADS = layers, hidden, inner, heads, kv_heads
    shape.LINEARS = {
        "attn_q": (hidden, hidden),
        "attn_k": (kv_width, hidden),
        "attn_v": (kv_width, hidden),
        "attn_output": (hidden, hidden),
        "ffn_gate": (inner, hidden),
        "ffn_up": (inner, hidden),
        "ffn_down": (hidden, inner),
    }
    shape.RANKS = (RANK,)
    shape.make(source, out)


if __name__ == "__main__":
    main()
