"""Compiled layers give what blocks give where activations are computed twice, and where rows differ in length.

Compiled as for a card up to the code itself: layers are traced, and cut into forward and backward pass by PyTorch's
partitioner. The operations are then computed one by one.
"""

import learner.backend
import pytest
import torch
from batches import open_settings, step_settings, tree_batch, write_tree_batch
from launches import counted_compiled
from learner import card
from learner.card import ON_A_CARD, Rows
from learner.flex import row_length
from learner.packing import plan
from learner.session import Session
from test_flex import computed, furthest, made, uncompiled  # noqa: F401

from models import make_model, write_gguf

pytestmark = pytest.mark.full

FUSED, LAYERS = ON_A_CARD[:2]


@pytest.fixture
def packs(tmp_path):
    """Rows of several lengths."""
    batch = tree_batch(tmp_path, groups=8)
    packs = plan(batch, 400) + plan(batch, 4096)
    assert len({row_length(len(pack.ids)) for pack in packs}) > 1
    return packs


@pytest.fixture
def graphs(uncompiled, monkeypatch):  # noqa: F811
    """What was compiled."""
    compiled = []
    cut = torch._dynamo.lookup_backend("aot_eager")

    def noting(graph, inputs):
        compiled.append(graph)
        return cut(graph, inputs)

    monkeypatch.setitem(card.COMPILED, "backend", noting)
    return compiled


def agree(found, wanted):
    (states, gradients), (their_states, slopes) = found, wanted
    return torch.allclose(states, their_states, atol=1e-5) and furthest(gradients, slopes) < 1e-5


@pytest.mark.parametrize(("way", "count"), [(FUSED, 2), (LAYERS, 1)], ids=lambda each: getattr(each, "name", ""))
def test_activations_computed_twice_change_no_number(graphs, tmp_path, silent, packs, way, count):
    """Compiled once for all layers and lengths of rows: a layer, and of fused layers what follows the last."""
    backend = made("qwen2", tmp_path, silent, shape={"num_hidden_layers": 3})
    wanted = computed(backend, packs)
    backend.checkpointing(True)
    backend.rows._take(backend, way)
    computed(backend, packs[:1])
    assert len(graphs) == count
    assert agree(computed(backend, packs), wanted)
    assert len(graphs) == count


@pytest.mark.parametrize("checkpointed", [False, True])
def test_the_kernels_planned_compute_what_blocks_compute(tmp_path, silent, monkeypatch, packs, checkpointed):
    """By the whole of PyTorch's compiler but for the code, with a stand-in for FlexAttention."""

    def attend(query, key, value, block_mask, scale, enable_gqa):
        places = torch.arange(query.shape[2])
        seen = block_mask.mask_mod(None, None, places[:, None], places)
        key, value = (one.repeat_interleave(query.shape[1] // one.shape[1], 1) for one in (key, value))
        scores = (query @ key.transpose(2, 3) * scale).masked_fill(~seen, float("-inf"))
        return scores.softmax(-1) @ value

    backend = made("qwen2", tmp_path, silent)
    wanted = computed(backend, packs)
    backend.checkpointing(checkpointed)
    with counted_compiled(backend, monkeypatch, attend):
        backend.rows._take(backend, FUSED)
        assert agree(computed(backend, packs), wanted)


def test_updates_with_rows_of_several_lengths_are_those_of_blocks(graphs, tmp_path, silent, monkeypatch):
    """In the first update activations are kept, in the second they are computed twice."""
    file = write_gguf(make_model("qwen2"), tmp_path / "model.gguf")
    batches = [write_tree_batch(tmp_path / f"{seed}.safetensors", groups=10, seed=seed) for seed in range(2)]

    def updates(name):
        session = Session(open_settings(file), silent)
        for number, batch in enumerate(batches):
            more = {"microBatchTokens": 700, "gradientCheckpointing": number == 1, "klCoefficient": 0.1}
            yield session.step(step_settings(batch, tmp_path / f"{name}-{number}", **more), silent)

    theirs = list(updates("blocks"))
    assert not graphs and all(one["microBatches"] > 1 for one in theirs)
    monkeypatch.setattr(learner.backend, "rows_for", lambda device: Rows((FUSED,)))
    lengths, counts = [], []
    monkeypatch.setattr(card, "padded", lambda pack, padded=card.padded: lengths.append(len(pack.ids)) or padded(pack))
    for found, wanted in zip(updates("fused"), theirs, strict=True):
        counts.append(len(graphs))
        assert found["notes"] == [] and found["tokens"]["padding"] > 0
        for name in ("loss", "klBase", "gradNorm"):
            assert found[name] == pytest.approx(wanted[name], rel=1e-3, abs=1e-5)
    assert len({row_length(length) for length in lengths}) > 2
    # For all lengths a layer and what follows the last, with gradients and without, and a layer without adapters; then
    # a layer with its checkpoint.
    assert counts == [5, 6]
