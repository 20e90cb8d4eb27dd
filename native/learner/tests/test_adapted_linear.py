"""Layers with an adapter, in 16 bits: what a young adapter changes is not lost when the frozen product is rounded."""

import gguf
import numpy
import pytest
import torch
from learner import fused, quantised
from learner.adapted_linear import round_once
from learner.fused_weights import ADAPTER
from peft import LoraConfig, get_peft_model

ROWS, WIDTH, OUT, RANK = 64, 96, 160, 4
KIND = gguf.GGMLQuantizationType.Q4_1


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Two(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)


def adapted(kind, scale):
    """A layer with an adapter that changes outputs, which are near 1, by about `scale`; and that without the mend."""
    linear = torch.nn.Linear(WIDTH, OUT, bias=kind == "bias")
    linear.weight.data = numbers(OUT, WIDTH, seed=1) * WIDTH**-0.5
    if kind == "bias":
        # Far above the product, as some of Qwen2's.
        linear.bias.data = 8 * numbers(OUT, seed=2)
    if kind == "blocks":
        blocks = torch.from_numpy(gguf.quants.quantize(linear.weight.detach().numpy().astype(numpy.float32), KIND))
        linear = quantised.QuantisedLinear(blocks, KIND, None)
    model = get_peft_model(
        Two(linear).requires_grad_(False), LoraConfig(r=RANK, lora_alpha=3 * RANK, target_modules=["layer"])
    )
    layer = model.base_model.model.layer
    layer.lora_A[ADAPTER].weight.data = numbers(RANK, WIDTH, seed=3) * WIDTH**-0.5
    layer.lora_B[ADAPTER].weight.data = numbers(OUT, RANK, seed=4) * scale / (3 * RANK**0.5)
    return model, layer


def change(model, x, halves):
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=halves):
        with model.disable_adapter():
            before = model(x).double()
        return model(x).double() - before


KINDS = ["plain", "bias", "blocks"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1e-3, 3e-2])
def test_a_change_far_below_a_step_of_bf16_is_there_on_average(kind, scale):
    x = numbers(ROWS, WIDTH).bfloat16().float()
    model, _ = adapted(kind, scale)
    wanted = change(model, x, halves=False)

    def share():
        return ((change(model, x, halves=True) * wanted).sum() / wanted.square().sum()).item()

    # As PEFT computes, which says that the change is small enough for this test.
    lost = share()
    round_once(model)
    assert share() == pytest.approx(1, abs=0.2)
    assert scale > 1e-3 or lost < 0.7


@pytest.mark.parametrize("kind", KINDS)
def test_in_f32_and_without_the_adapter_it_is_what_peft_computes(kind):
    x = numbers(2, ROWS, WIDTH)
    model, _ = adapted(kind, 0.1)
    wanted = model(x)
    round_once(model)
    assert torch.equal(model(x), wanted)
    with model.disable_adapter(), torch.autocast("cpu", torch.bfloat16):
        base = model(x)
        assert torch.equal(base, torch.nn.functional.linear(x, quantised.weights_of(_base(model)), _base(model).bias))


@pytest.mark.parametrize("kind", KINDS)
def test_for_an_engine_that_rounds_both_it_is_what_peft_computes(kind, monkeypatch):
    x = numbers(2, ROWS, WIDTH)
    model, _ = adapted(kind, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        wanted = model(x)
        round_once(model)
        assert not torch.equal(model(x), wanted)
        monkeypatch.setattr(fused.Order, "apart", True)
        assert torch.equal(model(x), wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_its_gradients_are_those_in_f32(kind):
    x = numbers(2, ROWS, WIDTH).bfloat16().float().requires_grad_()
    model, layer = adapted(kind, 0.1)
    learnt = (x, layer.lora_A[ADAPTER].weight, layer.lora_B[ADAPTER].weight)
    direction = numbers(2, ROWS, OUT, seed=5)
    wanted = torch.autograd.grad((model(x) * direction).sum(), learnt)
    round_once(model)
    with torch.autocast("cpu", torch.bfloat16):
        found = torch.autograd.grad((model(x).float() * direction).sum(), learnt)
    for one, other in zip(found, wanted, strict=True):
        assert (one - other).norm() < 0.02 * other.norm()


def _base(model):
    return model.base_model.model.layer.base_layer


@pytest.mark.parametrize("bias", [False, True])
def test_fused_products_keep_the_change_too(bias, monkeypatch):
    x, a = (numbers(*shape, seed=seed).bfloat16() for shape, seed in (((ROWS, WIDTH), 0), ((8, WIDTH), 3)))
    weight, b = numbers(OUT, WIDTH, seed=1) * WIDTH**-0.5, numbers(OUT, 8, seed=4) * 1e-3 / WIDTH**0.5
    joint = torch.cat((weight, b), 1).bfloat16()
    own = 8 * numbers(OUT, seed=2).bfloat16() if bias else None
    u = x @ a.T
    y = fused.adapted(x, u, joint, own, a, joint[:, WIDTH:], 2.0).double()
    before = torch.nn.functional.linear(x, joint[:, :WIDTH], own).double()
    wanted = u.double() @ joint[:, WIDTH:].double().T
    assert ((y - before) * wanted).sum() / wanted.square().sum() == pytest.approx(1, abs=0.2)
    # As an engine has it that rounds both.
    monkeypatch.setattr(fused.Order, "apart", True)
    y = fused.adapted(x, u, joint, own, a, joint[:, WIDTH:], 2.0)
    assert (y == (before + wanted).bfloat16()).double().mean() > 0.99
