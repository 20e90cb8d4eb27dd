"""Layers are compiled for CUDA up to their kernels' source, for cards and models of several kinds."""

import pytest
from fake_card import CARD, fake_card
from learner import attention
from learner.backend import LINEAR_LAYERS, TYPES, PeftBackend, _linears_to, _with_adapter
from learner.batch import BatchSequence
from learner.card import ON_A_CARD, Rows
from learner.packing import plan_trajectories
from learner.request import Lora
from torch import arange, randint

from models import make_model

pytestmark = pytest.mark.full

SHAPES = {
    # Of Qwen2.5 0.5B and 1.5B, and of Qwen3 0.6B, which has norms for queries and keys.
    "0.5b": ("qwen2", {"num_attention_heads": 14, "num_key_value_heads": 2, "head_dim": 64}),
    "1.5b": ("qwen2", {"num_attention_heads": 12, "num_key_value_heads": 2, "head_dim": 128}),
    "0.6b": ("qwen3", {"num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128}),
}


def backend_of(shape, precision):
    attention.register()
    architecture, more = SHAPES[shape]
    width = more["num_attention_heads"] * more["head_dim"]
    model = make_model(architecture, num_hidden_layers=2, hidden_size=width, **more).requires_grad_(False)
    model.config._attn_implementation = attention.NAME
    _linears_to(model, TYPES[precision])
    backend = PeftBackend.__new__(PeftBackend)
    backend.device, backend.precision = CARD, precision
    backend.model = _with_adapter(model, Lora(8, 16, list(LINEAR_LAYERS)))
    backend._causal = backend.model.base_model.model
    backend.model.train()
    backend.rows = Rows()
    return backend


def row():
    ids = randint(96, (700,))
    (pack,) = plan_trajectories([BatchSequence(ids, arange(len(ids)) >= 100, 0, 100, 0)], 10**6)
    return pack


@pytest.mark.parametrize(
    ("shape", "way", "precision", "capability"),
    [
        ("0.5b", ON_A_CARD[0], "bf16", (8, 6)),
        ("1.5b", ON_A_CARD[0], "f16", (8, 9)),
        ("0.6b", ON_A_CARD[0], "bf16", (9, 0)),
        # In f32, since without CUDA there is no autocast for it.
        ("0.5b", ON_A_CARD[1], "f32", (8, 6)),
        ("0.5b", ON_A_CARD[2], "f32", (8, 6)),
    ],
    ids=lambda one: getattr(one, "name", None),
)
def test_every_way_is_lowered_for_cuda(monkeypatch, shape, way, precision, capability):
    backend, pack = backend_of(shape, precision), row()
    with fake_card(monkeypatch, capability) as lowered:
        backend.model.to(CARD)
        backend.rows._take(backend, way)
        hidden = backend.computed(pack)
    assert hidden.device == CARD and hidden.shape == (len(pack.predicting), backend._causal.config.hidden_size)
    # All layers share one, and the last norm is another; of one attention call there is nothing else.
    assert len(lowered) == (2 if way.fused else 1)
