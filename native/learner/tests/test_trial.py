"""A trial sees what a way computes wrongly, on a new adapter too; and rows of all lengths share the code it leaves."""

import pytest
import torch
from batches import open_settings, tree_batch
from learner import card, fused, fused_model, packing
from learner.backend import PeftBackend
from learner.card import BLOCKS, ON_A_CARD, Rows, Way
from learner.packing_check import NOISE, untouched
from test_flex import computed, furthest, uncompiled  # noqa: F401

from models import make_model, write_gguf

pytestmark = pytest.mark.full

FUSED = Way("fused layers", one_call=False, layers=False, fused=True)


def fresh(tmp_path, silent, shape=None, **settings):
    """With the adapter of a new run, whose B is 0."""
    torch.manual_seed(0)
    file = write_gguf(make_model("qwen2", **(shape or {})), tmp_path / "model.gguf")
    return PeftBackend(open_settings(file, **settings), silent)


def tried(backend, *ways):
    backend.rows = Rows(ways or (FUSED,))
    backend.rows.settle(backend)
    return backend.rows.way


class Wrong(torch.autograd.Function):
    """A product with an adapter, one part of which is wrong."""

    @staticmethod
    def forward(context, x, weight, bias, a, b, scaling, part):
        context.save_for_backward(x, weight, a, b)
        context.scaling, context.part = scaling, part
        y = torch.nn.functional.linear(x, weight, bias)
        return y if part == "y" else y + (1 if part == "scaling" else scaling) * (x @ a.T @ b.T)

    @staticmethod
    def backward(context, dy):
        x, weight, a, b = context.saved_tensors
        s = 1 if context.part == "scaling" else context.scaling
        du = s * dy @ b
        dx = dy @ weight if context.part == "dx" else dy @ weight + du @ a
        da = torch.zeros_like(a) if context.part == "da" else du.T @ x
        db = torch.zeros_like(b) if context.part == "db" else s * dy.T @ (x @ a.T)
        return dx, None, None, da, db, None, None


def with_wrong(monkeypatch, part, where=lambda of: True):
    right = fused.product

    def product(x, of):
        if of.a is None or not where(of):
            return right(x, of)
        return Wrong.apply(x, of.joint[:, : x.shape[1]], of.bias, of.a, of.b, of.scaling, part)

    monkeypatch.setattr(fused, "product", product)


@pytest.mark.parametrize("precision", ["f32", "f16", "bf16"])
def test_products_that_are_right_are_taken(tmp_path, silent, monkeypatch, precision):
    with_wrong(monkeypatch, "nothing")
    backend = fresh(tmp_path, silent, precision=precision)
    assert tried(backend) is FUSED and backend.notes() == []


@pytest.mark.parametrize("precision", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("part", ["y", "dx", "da", "db", "scaling"])
def test_a_wrong_adapter_is_seen_though_that_of_a_new_run_does_nothing(tmp_path, silent, monkeypatch, part, precision):
    with_wrong(monkeypatch, part)
    backend = fresh(tmp_path, silent, precision=precision)
    assert tried(backend) is BLOCKS
    (note,) = backend.notes()
    assert ("hidden states" if part in ("y", "scaling") else "gradients of") in note


@pytest.mark.parametrize("part", ["da", "db"])
def test_one_gradient_of_many_is_seen(tmp_path, silent, monkeypatch, part):
    """In the last layer, whose gradients are small beside those of the first."""
    seen = []
    backend = fresh(tmp_path, silent, precision="bf16", shape={"num_hidden_layers": 12})

    def last(of):
        if of.joint.data_ptr() not in seen:
            seen.append(of.joint.data_ptr())
        return seen.index(of.joint.data_ptr()) == 12 * 4 - 2

    with_wrong(monkeypatch, part, last)
    assert tried(backend) is BLOCKS
    (note,) = backend.notes()
    assert f"layers.11.mlp.gate_proj.lora_{part[1].upper()} differ by 1 " in note


def test_the_adapter_is_the_same_after_a_trial_and_copies_of_it_too(tmp_path, silent):
    backend = fresh(tmp_path, silent)
    for number, parameter in enumerate(backend.trainable()):
        parameter.grad = torch.full_like(parameter, number)
    before = [parameter.detach().clone() for parameter in backend.trainable()]
    with untouched(backend):
        for name, module in backend._causal.model.named_modules():
            if hasattr(module, "lora_B"):
                a, b = (of["default"].weight.detach() for of in (module.lora_A, module.lora_B))
                product = module.scaling["default"] * b @ a
                much = float(product.norm() / module.base_layer.weight.norm())
                assert NOISE / 2 < much < NOISE * 2, name
    assert tried(backend) is FUSED
    for number, (parameter, was) in enumerate(zip(backend.trainable(), before, strict=True)):
        assert torch.equal(parameter, was) and bool((parameter.grad == number).all())
    packs = packing.plan(tree_batch(tmp_path, groups=4), 4096)
    states, slopes = computed(backend, packs)
    backend.rows = Rows()
    wanted, gradients = computed(backend, packs)
    assert torch.allclose(states, wanted, atol=1e-5)
    trained = {name for name in slopes if "lora_B" in name}
    assert furthest({n: slopes[n] for n in trained}, {n: gradients[n] for n in trained}) < 1e-5
    assert all(not slopes[name].any() for name in slopes if "lora_A" in name)


def test_a_model_that_overflows_f16_is_tried_again_in_bf16(tmp_path, silent):
    backend = fresh(tmp_path, silent, precision="f16")
    with torch.no_grad():
        backend._causal.model.layers[0].mlp.down_proj.base_layer.weight.mul_(60_000)
    assert tried(backend) is BLOCKS
    (note,) = backend.notes()
    assert note == "the learner computes in blocks on cpu: the trial overflows f16"
    backend.rows.settle(backend)
    assert backend.rows.way is BLOCKS and backend.notes() == []
    backend.compute_in("bf16", for_good=True)
    backend.rows.settle(backend)
    assert backend.rows.way is FUSED and backend.notes() == []


def test_the_base_policy_is_tried_when_it_is_first_computed(tmp_path, silent, monkeypatch):
    """Products that leave the adapter on."""
    right, last = fused.product, {}

    def product(x, of):
        if of.a is not None:
            last[of.joint.shape[0], x.shape[1]] = of
            return right(x, of)
        other = last[of.joint.shape[0], x.shape[1]]
        return right(x, of) + other.scaling * (x @ other.a.T @ other.b.T)

    monkeypatch.setattr(fused, "product", product)
    backend = fresh(tmp_path, silent)
    assert tried(backend) is FUSED
    with backend.base_policy(), torch.no_grad():
        backend.rows.settle(backend)
        assert backend.rows.way is BLOCKS
    (note,) = backend.notes()
    assert "hidden states without gradients differ by" in note


def test_activations_computed_twice_are_tried_when_they_first_are(tmp_path, silent, monkeypatch):
    def wrong(*arguments):
        hidden, added = fused.checkpointed_layer_output(*arguments)
        return hidden * 1.1, added

    monkeypatch.setattr(fused_model, "checkpointed_layer_output", wrong)
    backend = fresh(tmp_path, silent)
    assert tried(backend) is FUSED
    backend.checkpointing(True)
    backend.rows.settle(backend)
    assert backend.rows.way is BLOCKS and len(backend.notes()) == 1


@pytest.mark.parametrize("way", ON_A_CARD[:2], ids=lambda way: way.name)
def test_a_model_as_wide_as_a_row_is_long_shares_code_among_rows_too(uncompiled, tmp_path, silent, monkeypatch, way):  # noqa: F811
    """The rollouts of a trial are padded to 896 positions in one row, which is the width of Qwen2.5-0.5B."""
    graphs = []

    def counting(graph, inputs):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setitem(card.COMPILED, "backend", counting)
    backend = fresh(tmp_path, silent, shape={"hidden_size": 896, "num_hidden_layers": 2})
    assert tried(backend, way) is way, backend.notes()
    traced = len(graphs)
    for budget in (300, 600, 4096):
        (pack, *_) = packing.plan(tree_batch(tmp_path, groups=8), budget)
        backend.hidden(pack).sum().backward()
        with torch.no_grad():
            backend.hidden(pack)
    assert len(graphs) == traced == (4 if way.fused else 3)


def test_code_for_every_state_is_not_too_much(uncompiled, tmp_path, silent):  # noqa: F811
    """Of a layer nine variants, with gradients, without, and without adapters: PyTorch's own limit is eight."""
    backend = fresh(tmp_path, silent, precision="f16")
    backend.rows = Rows(ON_A_CARD[:1])
    for precision in ("f16", "bf16", "f32"):
        backend.compute_in(precision, for_good=True)
        backend.rows.settle(backend)
        with backend.base_policy(), torch.no_grad():
            backend.rows.settle(backend)
        assert backend.rows.way is ON_A_CARD[0] and backend.notes() == []
