"""bf16 products on a CPU: what the trial says, and what it lets through. Processors without such instructions compute
the same numbers, slowly."""

import pytest
import torch
from batches import open_settings, random_batch, step_settings, write_random_batch
from learner import cpu_bf16
from learner.backend import PeftBackend
from learner.packing import plan
from learner.packing_check import difference
from learner.session import Session

from models import make_model, write_gguf


@pytest.fixture
def opened(tmp_path, silent, monkeypatch):
    def opened(precision="auto", instructions="AMX", least=0, kind="F16"):
        monkeypatch.setattr(cpu_bf16, "instructions", lambda: instructions)
        monkeypatch.setattr(cpu_bf16, "LEAST_WEIGHTS", least)
        # Blocks of 32 weights in each row.
        file = write_gguf(make_model("qwen2", hidden_size=64, intermediate_size=96), tmp_path / "model.gguf", kind)
        return PeftBackend(open_settings(file, precision=precision), silent)

    return opened


def computed(backend, tmp_path):
    """Hidden states, and the gradients of their sum, in an adapter that is not new."""
    (pack,) = plan(random_batch(tmp_path, groups=1), 10**6)
    generator = torch.Generator().manual_seed(1)
    for parameter in backend.trainable():
        parameter.data.copy_(torch.randn(parameter.shape, generator=generator) / 10)
    hidden = backend.hidden(pack)
    backend.backward(hidden, torch.ones_like(hidden))
    return hidden.detach().float(), [parameter.grad for parameter in backend.trainable()]


@pytest.mark.parametrize("kind", ["F16", "Q8_0"])
def test_where_the_processor_has_them_products_are_bf16_and_values_and_gradients_those_of_f32(opened, tmp_path, kind):
    states, slopes = computed(opened("f32", kind=kind), tmp_path)
    backend = opened(kind=kind)
    assert backend.precision == "bf16"
    (note,) = backend.notes()
    assert note.startswith("the learner multiplies in bf16 by AMX: in a trial products differ by 0.00")
    assert backend.notes() == []
    ours, gradients = computed(backend, tmp_path)
    assert 1e-5 < difference(ours, states) < 0.05
    assert all(gradient.dtype == torch.float32 for gradient in gradients)
    assert (
        difference(torch.cat([one.flatten() for one in gradients]), torch.cat([one.flatten() for one in slopes])) < 0.1
    )


def test_an_update_is_made_in_bf16_and_tells_of_it(tmp_path, silent, monkeypatch, qwen2):
    monkeypatch.setattr(cpu_bf16, "instructions", lambda: "AVX512-BF16")
    monkeypatch.setattr(cpu_bf16, "LEAST_WEIGHTS", 0)
    session = Session(open_settings(qwen2, precision="auto"), silent)
    assert session.info["precision"] == "bf16"
    metrics = session.step(step_settings(write_random_batch(tmp_path / "batch.safetensors"), tmp_path / "1"), silent)
    assert metrics["applied"] and metrics["precision"] == "bf16"
    assert any("AVX512-BF16" in note for note in metrics["notes"])


@pytest.mark.parametrize("what", ["values", "slopes", "not a number"])
def test_a_processor_that_multiplies_otherwise_stays_at_f32_and_it_is_said(opened, monkeypatch, what):
    right = cpu_bf16.products

    def wrong(linear, x, slope, halved):
        values, slopes = right(linear, x, slope, halved)
        if halved and linear.in_features > linear.out_features:
            (slopes if what == "slopes" else values)[-1] *= float("nan") if what == "not a number" else 1.5
        return values, slopes

    monkeypatch.setattr(cpu_bf16, "products", wrong)
    backend = opened()
    assert backend.precision == "f32"
    assert {one.dtype for one in backend.model.parameters()} == {torch.float32}
    (note,) = backend.notes()
    assert note.startswith("the learner computes in f32: products in bf16 by AMX differ by ")


@pytest.mark.parametrize("why", [{"precision": "f32"}, {"instructions": None}, {"least": 10**6}])
def test_without_such_instructions_for_small_models_and_when_asked_it_is_f32(opened, why):
    backend = opened(**why)
    assert backend.precision == "f32" and backend.notes() == []
