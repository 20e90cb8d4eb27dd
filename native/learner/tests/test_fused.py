"""Layers with few products for all adapters give the numbers of PEFT's, and their memory is that of PEFT's."""

import gc

import pytest
import torch
from batches import open_settings, step_settings, tree_batch, write_tree_batch
from learner import fused_weights, packing
from learner.architectures import ARCHITECTURES
from learner.backend import LINEAR_LAYERS, TYPES
from learner.card import BLOCKS, Rows, Way
from learner.packing_check import SAME
from learner.session import Session
from test_flex import computed, furthest, made
from torch.multiprocessing.reductions import StorageWeakRef

from models import make_model, write_gguf

FUSED = Way("fused layers, not compiled", one_call=False, layers=False, fused=True)
TARGETS = {"all": list(LINEAR_LAYERS), "some": ["q_proj", "v_proj", "up_proj", "down_proj"], "one": ["k_proj"]}


def lora(rank=8, alpha=16, targets="all"):
    return {"lora": {"rank": rank, "alpha": alpha, "targets": TARGETS[targets]}}


@pytest.fixture
def packs(tmp_path):
    return packing.plan(tree_batch(tmp_path, groups=8), 200)


@pytest.mark.parametrize(
    ("architecture", "settings"),
    [
        ("qwen2", lora()),
        ("qwen3", lora(rank=4, alpha=6)),
        ("llama", lora(rank=1, alpha=3)),
        ("smollm3", lora()),
        ("granite", lora()),
        ("olmo2", lora()),
        ("gemma3", lora()),
        ("phi3", lora()),
    ]
    + [("qwen2", lora(rank=5, targets=targets)) for targets in ("some", "one")],
)
def test_hidden_states_and_gradients_are_those_of_peft(tmp_path, silent, packs, architecture, settings):
    backend = made(architecture, tmp_path, silent, **settings)
    assert len(packs) > 2
    # Sums in another order, of states around 1: their rounding adds up over the layers.
    near = 1e-5 * backend.base.config.num_hidden_layers
    wanted, slopes = computed(backend, packs)
    backend.rows._take(backend, FUSED)
    for checkpointing in (False, True):
        backend.checkpointing(checkpointing)
        states, gradients = computed(backend, packs)
        assert torch.allclose(states, wanted, atol=near)
        assert furthest(gradients, slopes) < near
    with backend.base_policy(), torch.no_grad():
        base = torch.cat([backend.hidden(pack) for pack in packs])
        backend.rows._take(backend, BLOCKS)
        assert torch.allclose(base, torch.cat([backend.hidden(pack) for pack in packs]), atol=near)
    assert not torch.allclose(base, wanted, atol=1e-2)


@pytest.mark.parametrize("precision", ["bf16", "f16"])
def test_in_16_bits_the_numbers_are_as_near_to_f32_as_those_of_peft(tmp_path, silent, packs, precision):
    exact, slopes = computed(made("qwen2", tmp_path, silent, **lora()), packs)
    backend = made("qwen2", tmp_path, silent, precision=precision, **lora())
    far = []
    for way in (BLOCKS, FUSED):
        backend.rows._take(backend, way)
        states, gradients = computed(backend, packs)
        assert backend.rows.fused is None or backend.rows.fused.dtype == TYPES[precision]
        far.append((float((states - exact).norm() / exact.norm()), furthest(gradients, slopes)))
    (theirs, theirs_slopes), (ours, ours_slopes) = far
    # Of the gradients the one that is furthest, which one number decides.
    assert 0 < ours < 1.5 * theirs and 0 < ours_slopes < 2 * theirs_slopes
    # An update tried in another precision converts the weights in each product, as PEFT's layers do.
    backend.compute_in("f16" if precision == "bf16" else "bf16")
    with torch.no_grad():
        tried = torch.cat([backend.hidden(pack) for pack in packs])
    assert float((tried - exact).norm() / exact.norm()) < SAME["bf16"]


def test_frozen_weights_are_kept_once(tmp_path, silent, packs):
    backend = made("qwen2", tmp_path, silent, **lora())
    frozen = sum(p.numel() for p in backend.model.parameters() if not p.requires_grad)
    backend.rows._take(backend, FUSED)
    computed(backend, packs[:1])
    layers = backend._causal.model.layers
    storages = {p.untyped_storage().data_ptr(): p.untyped_storage().nbytes() for p in backend.model.parameters()}
    own = sum(p.untyped_storage().nbytes() for p in backend.trainable())
    # Beside the frozen weights there are the columns of B alone: of q, k, v and of gate, up as many as adapters.
    columns = sum(
        sum(len(getattr(layer, part).get_submodule(name).weight) for name in names) * 8 * len(names)
        for layer in layers
        for part, names in ARCHITECTURES["qwen2"].inputs
    )
    assert sum(storages.values()) - own == 4 * (frozen + columns)
    # A move copies each of them, and leaves the joint matrices.
    backend.model.to(torch.float64).to(torch.float32)
    backend.move(torch.device("cpu"))
    assert layers[0].self_attn.q_proj.weight.is_contiguous()
    assert not any(one.kept() for one in joints(backend))


def joints(backend):
    return [one for layer in backend.rows.fused._joints._layers for one in layer]


@pytest.fixture
def fused_backend(tmp_path, silent, packs):
    """In f16, after a row with gradients."""
    backend = made("qwen2", tmp_path, silent, precision="f16", **lora())
    backend.rows._take(backend, FUSED)
    computed(backend, packs[:1])
    return backend


@pytest.mark.parametrize("leaving", ["a move", "another type"])
def test_nothing_of_the_joint_matrices_stays_when_the_weights_leave_them(fused_backend, packs, leaving):
    """B, a view, holds the storage of the whole matrix, and so of all frozen weights."""
    backend = fused_backend
    storages = [StorageWeakRef(one.matrix.untyped_storage()) for one in joints(backend)]
    gc.disable()
    try:
        if leaving == "a move":
            # As one to another device: all tensors are copied.
            for tensor in (*backend.model.parameters(), *backend.model.buffers()):
                tensor.data = tensor.data.clone()
            backend.move(torch.device("cpu"))
        else:
            backend.compute_in("bf16", for_good=True)
        assert [one.expired() for one in storages] == [True] * len(storages)
    finally:
        gc.enable()
    states, _ = computed(backend, packs[:1])
    assert states.isfinite().all() and all(one.kept() for one in joints(backend))


def test_weights_of_another_type_are_joined_as_those_of_a_model_that_was_loaded_in_it(
    fused_backend, packs, tmp_path, silent
):
    fused_backend.compute_in("bf16", for_good=True)
    loaded = made("qwen2", tmp_path, silent, precision="bf16", **lora())
    loaded.rows._take(loaded, FUSED)
    (states, gradients), (wanted, slopes) = (computed(one, packs[:1]) for one in (fused_backend, loaded))
    assert torch.equal(states, wanted) and furthest(gradients, slopes) == 0


def test_memory_of_the_separate_weights_is_given_back_once_all_are_joined(tmp_path, silent, packs, monkeypatch):
    backend = made("qwen2", tmp_path, silent, **lora())
    backend.rows._take(backend, FUSED)
    given = []
    monkeypatch.setattr(
        fused_weights, "give_back", lambda device: given.append([one.kept() for one in joints(backend)])
    )
    computed(backend, packs[:2])
    assert given == [[True] * len(joints(backend))]
    backend.move(torch.device("cpu"))
    computed(backend, packs[:2])
    assert len(given) == 2


@pytest.fixture
def fused(monkeypatch):
    """Every PeftBackend computes fused layers."""

    def taken(backend):
        if backend.rows.fused is None:
            backend.rows._take(backend, FUSED)

    monkeypatch.setattr(Rows, "settle", lambda self, backend: taken(backend))


def learnt(session):
    return {name: p.detach().clone() for name, p in session._backend.model.named_parameters() if p.requires_grad}


def test_updates_are_those_of_peft_and_go_on_from_a_checkpoint(tmp_path, silent, monkeypatch, request):
    file = write_gguf(make_model("qwen2"), tmp_path / "model.gguf")
    batches = [write_tree_batch(tmp_path / f"{seed}.safetensors", seed=seed) for seed in range(3)]
    more = {"minibatches": 2, "klCoefficient": 0.1, "microBatchTokens": 120, "learningRate": 1e-3}

    def trained(name):
        session = Session(open_settings(file), silent)
        for number, batch in enumerate(batches):
            if number == 2:
                # In another process it would go on so; and its weights move.
                session = Session(open_settings(file, resume=str(tmp_path / name / "1")), silent)
                session._backend.rows.settle(session._backend)
                session._backend.move(torch.device("cpu"))
            into = tmp_path / name / str(number)
            found = session.step(step_settings(batch, into, **more, gradientCheckpointing=number == 1), silent)
            assert found["microBatches"] > 2
        return found, learnt(session)

    theirs, wanted = trained("peft")
    request.getfixturevalue("fused")
    ours, found = trained("fused")
    for name in ("loss", "gradNorm", "klBase", "entropy"):
        assert ours[name] == pytest.approx(theirs[name], rel=1e-3, abs=1e-6)
    # Adam divides by the gradient's size: where that is nearly 0, its rounding counts.
    assert furthest(found, wanted) < 1e-3
