"""One attention call for a packed row gives what its blocks give, and the mask's squares what the trie says.

FlexAttention runs uncompiled here, as PyTorch defines it; its compiled kernels need a GPU.
"""

import warnings

import pytest
import torch
from batches import open_settings, random_batch, tree_batch
from learner import card, packing
from learner.backend import LINEAR_LAYERS, PeftBackend
from learner.card import Way
from learner.flex import SIZES, SQUARE, block_mask, padded, row_length
from learner.fused_model import fits
from torch.nn.attention import flex_attention

from models import make_model, write_gguf

pytestmark = pytest.mark.full

ONE_CALL = Way("one attention call", True, False)


@pytest.fixture
def uncompiled(monkeypatch):
    """PyTorch refuses gradients of FlexAttention on a CPU, for which it generates no code; its definition has them."""
    monkeypatch.setattr(flex_attention, "_validate_device", lambda *_: None)
    monkeypatch.setitem(card.COMPILED, "backend", "eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.compiler.reset()


def made(architecture, tmp_path, silent, shape=None, **settings):
    return opened(write_gguf(make_model(architecture, **(shape or {})), tmp_path / "model.gguf"), silent, **settings)


def opened(file, silent, **settings):
    """With adapters that change what the model computes."""
    torch.manual_seed(0)
    backend = PeftBackend(open_settings(file, **settings), silent)
    with torch.no_grad():
        for parameter in backend.trainable():
            parameter.normal_(std=0.1)
    return backend


def computed(backend, packs):
    """Hidden states of all rows, and the gradients of a fixed function of them."""
    backend.model.zero_grad()
    states = [backend.hidden(pack) for pack in packs]
    for one in states:
        one.square().sin().sum().backward()
    gradients = {name: p.grad.clone() for name, p in backend.model.named_parameters() if p.grad is not None}
    return torch.cat(states).detach(), gradients


def furthest(gradients, wanted):
    """The largest relative difference of a parameter's gradient."""
    assert gradients.keys() == wanted.keys() and wanted
    return max(float((gradients[name] - wanted[name]).norm() / wanted[name].norm()) for name in wanted)


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3", "llama", "olmo2", "gemma3"])
@pytest.mark.parametrize(("make", "budget"), [(random_batch, 4096), (tree_batch, 400), (tree_batch, 4096)])
def test_one_call_gives_the_hidden_states_and_gradients_of_blocks(
    uncompiled, tmp_path, silent, architecture, make, budget
):
    backend = made(architecture, tmp_path, silent)
    batch = make(tmp_path, groups=8)
    packs = packing.plan(batch, budget)
    assert max(len(pack.ids) for pack in packs) > 2 * SQUARE
    wanted, slopes = computed(backend, packs)
    backend.rows._take(backend, ONE_CALL)
    states, gradients = computed(backend, packs)
    # Rounding adds up over the layers.
    near = 5e-6 * backend.base.config.num_hidden_layers
    assert torch.allclose(states, wanted, atol=near)
    assert furthest(gradients, slopes) < near
    assert backend.padding(packs[0]) == row_length(len(packs[0].ids)) - len(packs[0].ids) > 0


@pytest.mark.parametrize("architecture", ["smollm3", "granite", "olmo2", "gemma3", "phi3", "lfm2"])
def test_layers_of_each_kind_are_traced_whole_as_a_card_computes_them(uncompiled, tmp_path, silent, architecture):
    lora = {"rank": 4, "alpha": 8, "targets": list(LINEAR_LAYERS)}
    backend = made(architecture, tmp_path, silent, lora=lora)
    packs = packing.plan(tree_batch(tmp_path, groups=8), 400)
    wanted, slopes = computed(backend, packs)
    # Layers with convolutions are not fused.
    backend.rows._take(backend, next(way for way in card.ON_A_CARD if fits(backend.model) or not way.fused))
    states, gradients = computed(backend, packs)
    near = 1e-5 * backend.base.config.num_hidden_layers
    assert torch.allclose(states, wanted, atol=near)
    assert furthest(gradients, slopes) < near


@pytest.mark.parametrize("way", [ONE_CALL, card.ON_A_CARD[0]], ids=lambda way: way.name)
def test_keys_for_each_query_head_give_what_heads_that_share_them_give(uncompiled, tmp_path, silent, way):
    lora = {"rank": 4, "alpha": 8, "targets": list(LINEAR_LAYERS)}
    backend = made("qwen2", tmp_path, silent, lora=lora)
    packs = packing.plan(tree_batch(tmp_path, groups=8), 400)
    heads, shared = backend.base.config.num_attention_heads, backend.base.config.num_key_value_heads
    assert shared < heads
    keys = set()

    def attend(query, key, *rest, **more):
        keys.add(key.shape[1])
        return flex_attention.flex_attention(query, key, *rest, **more)

    found = []
    for expanded in (False, True):
        backend.rows.expanded = expanded
        backend.rows._attend = None if way.fused else attend
        backend.rows._take(backend, way)
        found.append(computed(backend, packs))
    (wanted, slopes), (states, gradients) = found
    assert way.fused or keys == {shared, heads}
    near = 5e-6 * backend.base.config.num_hidden_layers
    assert torch.allclose(states, wanted, atol=near)
    assert furthest(gradients, slopes) < near


def listed(numbers, indices):
    """bool [queries, keys]"""
    squares = torch.zeros(indices.shape[2:], dtype=torch.bool)
    for query, number in enumerate(numbers[0, 0].tolist()):
        squares[query, indices[0, 0, query, :number].long()] = True
    return squares


@pytest.mark.parametrize("window", [None, 300])
def test_squares_are_left_out_masked_or_seen_in_whole_as_the_trie_and_the_window_say(tmp_path, window):
    pack = padded(max(packing.plan(tree_batch(tmp_path, groups=24), 4096), key=lambda one: len(one.ids)))
    # Branches as long as several squares beside short ones.
    long = padded(packing.plan(random_batch(tmp_path, groups=2, prompt=(300, 300), own=(290, 500)), 10**6)[0])
    kinds = set()
    for row in (pack, long):
        places = torch.arange(len(row.ids))
        seen = (places <= places[:, None]) & (places[:, None] < row.ends)
        if window is not None:
            seen &= row.positions[:, None] - row.positions < window
        squares = seen.view(-1, SQUARE, len(places) // SQUARE, SQUARE).transpose(1, 2)
        mask = block_mask(row.ends, row.positions, torch.device("cpu"), window)
        partly = listed(mask.kv_num_blocks, mask.kv_indices)
        whole = listed(mask.full_kv_num_blocks, mask.full_kv_indices)
        assert torch.equal(whole, squares.all(-1).all(-1))
        needed = squares.any(-1).any(-1) & ~whole
        assert torch.equal(partly, needed) if window is None else (partly >= needed).all()
        assert torch.equal(mask.mask_mod(0, 0, places[:, None], places[None]), seen)
        kinds |= set((whole * 2 + partly).tril().unique().tolist())
    assert kinds == {0, 1, 2}


@pytest.mark.parametrize("positions", [1, 255, 256, 257, 1000, 2048, 2049, 4000, 16_000, 65_000])
def test_rows_have_few_lengths_and_little_padding(positions):
    length = row_length(positions)
    assert length >= positions and length % SQUARE == 0 and length > 2 * SQUARE
    assert length - positions < max(3 * SQUARE, positions / SIZES + 1)
    assert row_length(length) == length


def test_rows_of_an_octave_have_at_most_eight_lengths():
    assert len({row_length(positions) for positions in range(4097, 8193)}) == SIZES


def test_padding_sees_itself_alone_and_nobody_sees_it(tmp_path):
    (pack,) = packing.plan(tree_batch(tmp_path), 4096)
    row = padded(pack)
    count = len(pack.ids)
    places = torch.arange(len(row.ids))
    seen = (places <= places[:, None]) & (places[:, None] < row.ends)
    assert torch.equal(seen[count:], places[count:, None] == places)
    assert not seen[:count, count:].any()
    assert torch.equal(row.predicting, pack.predicting) and torch.equal(row.ids[:count], pack.ids)
