"""Updates in f16: no gradient is lost to its narrow range, and bf16 takes over where activations are beyond it."""

import math

import pytest
import torch
from batches import open_settings, sft_settings, step_settings, write_tree_batch
from learner import loss, rehearsal, scaling, update
from learner.backend import choose_precision
from learner.batch import read_batch
from learner.errors import Refused
from learner.scaling import FALL, FIRST, LEAST, PATIENCE, RISE, LossScale
from learner.session import Session

from models import make_model, write_gguf


@pytest.fixture
def gguf(tmp_path):
    return write_gguf(make_model("qwen2"), tmp_path / "model.gguf")


@pytest.fixture
def batch(tmp_path):
    return write_tree_batch(tmp_path / "batch.safetensors")


class Watched:
    """The gradients of each update, as they were clipped, and the scales they were computed at."""

    def __init__(self, session, monkeypatch):
        self.gradients, self.scales = [], []
        optimizer = session._optimizer
        clip = optimizer.clip

        def noting(max_norm):
            self.scales.append(optimizer.scale.value)
            norm = clip(max_norm)
            self.gradients.append(torch.cat([parameter.grad.flatten() for parameter in optimizer.parameters]))
            return norm

        monkeypatch.setattr(optimizer, "clip", noting)


def opened(gguf, silent, precision="f16", **more):
    session = Session(open_settings(gguf, precision=precision, **more), silent)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in session._backend.trainable():
            parameter.normal_(std=0.1)
    session._in_force = session._see(None)
    return session


def cosine(one, other):
    return torch.nn.functional.cosine_similarity(one, other, dim=0).item()


def weights(session):
    return [parameter.detach().clone() for parameter in session._backend.trainable()]


@pytest.mark.parametrize(
    ("device", "weights", "chosen"),
    [
        ("cpu", "f16", "f32"),
        ("cpu", "bf16", "f32"),
        ("cuda", "f16", "f16"),
        ("cuda", "bf16", "bf16"),
        ("cuda", "f32", "bf16"),
        ("cuda", "q8_0", "bf16"),
    ],
)
def test_the_precision_of_a_gpu_is_that_of_the_weights_and_f32_stays_the_cpus(device, weights, chosen, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    assert choose_precision("auto", torch.device(device), weights) == chosen
    assert choose_precision("f16", torch.device(device), weights) == "f16"


@pytest.mark.parametrize("weights", ["f16", "bf16", "f32", "q8_0"])
def test_a_gpu_without_bf16_computes_in_f16(weights, monkeypatch):
    """Turing: PyTorch emulates bf16 there, Unsloth takes f16 in its place."""
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    assert choose_precision("auto", torch.device("cuda"), weights) == "f16"
    assert choose_precision("bf16", torch.device("cuda"), weights) == "bf16"
    assert choose_precision("auto", torch.device("cpu"), weights) == "f32"


@pytest.mark.parametrize("lora", [True, False])
def test_f16_gives_the_gradient_of_f32_however_small_it_is(gguf, batch, tmp_path, silent, monkeypatch, lora):
    """A token's share of the gradient is made so small that f16 without a scale would round it to nothing."""
    more = {} if lora else {"lora": None}
    found = {}
    for name, precision, first in (("f32", "f32", 1), ("scaled", "f16", FIRST), ("plain", "f16", LEAST)):
        monkeypatch.setattr(scaling, "FIRST", first)
        session = opened(gguf, silent, precision, **more)
        watched = Watched(session, monkeypatch)
        request = step_settings(batch, tmp_path, learningRate=0.0)
        monkeypatch.setattr(loss, "token_scale", lambda _, owner, *__: torch.full((len(owner),), 1e-7))
        # A guard would refuse shares that the objective does not give.
        monkeypatch.setattr(update, "check_scales", lambda *_: None)
        metrics = update.policy_update(session._backend, session._optimizer, read_batch(batch, 96), request, silent)
        assert metrics["overflows"] == 0
        found[name] = watched.gradients[0]
    assert cosine(found["scaled"], found["f32"]) > 0.999
    assert found["scaled"].norm().item() == pytest.approx(found["f32"].norm().item(), rel=0.01)
    assert cosine(found["plain"], found["f32"]) < 0.99


def test_an_overflow_is_computed_again_at_a_lower_scale_and_counted(gguf, batch, tmp_path, silent, monkeypatch):
    monkeypatch.setattr(scaling, "FIRST", 2.0**40)
    # It has gradients of its own, in f32.
    monkeypatch.setattr(rehearsal, "rehearse", lambda *_: None)
    session = opened(gguf, silent)
    watched = Watched(session, monkeypatch)
    metrics = session.step(step_settings(batch, tmp_path / "0001"), silent)
    assert metrics["applied"] and metrics["precision"] == "f16"
    count = metrics["overflows"]
    assert count > 2
    assert watched.scales == [2.0**40 / FALL**number for number in range(count + 1)]
    assert not any(gradient.isfinite().all() for gradient in watched.gradients[:-1])
    # The weights are those of an update that never overflowed, and the next update begins with the scale that held.
    monkeypatch.setattr(scaling, "FIRST", watched.scales[-1])
    straight = opened(gguf, silent)
    assert straight.step(step_settings(batch, tmp_path / "straight"), silent)["overflows"] == 0
    assert all(torch.equal(one, other) for one, other in zip(weights(session), weights(straight), strict=True))
    assert session.step(step_settings(batch, tmp_path / "0002"), silent)["overflows"] == 0
    resumed = Session(open_settings(gguf, precision="f16", resume=str(tmp_path / "0002")), silent)
    assert resumed._optimizer.scale.value == watched.scales[-1]


def test_imitation_loses_no_update_to_an_overflow(gguf, batch, tmp_path, silent, monkeypatch):
    monkeypatch.setattr(scaling, "FIRST", 2.0**40)
    session = opened(gguf, silent)
    settings = sft_settings(batch, tmp_path / "sft", epochs=2, updateTrajectories=7)
    metrics = session.sft(settings, silent)
    assert metrics["updates"] == 6 and metrics["skipped"] == 0 and metrics["overflows"] > 2


def large(path):
    """Activations of this model are beyond 65504, and nothing else is unusual."""
    model = make_model("qwen2")
    with torch.no_grad():
        for layer in model.model.layers:
            layer.post_attention_layernorm.weight.mul_(1024)
    return write_gguf(model, path)


def update_of(session, objective, trajectories, silent):
    """One epoch of either kind; a supervised one by updates of so many trajectories."""

    def updated(batch, into, **more):
        if objective == "step":
            return session.step(step_settings(batch, into, **more), silent)
        return session.sft(sft_settings(batch, into, epochs=1, updateTrajectories=trajectories, **more), silent)

    return updated


@pytest.mark.parametrize("objective", ["step", "sft"])
def test_where_activations_overflow_bf16_takes_over_for_good(batch, tmp_path, silent, objective):
    gguf = large(tmp_path / "large.gguf")

    def updated(session, name):
        return update_of(session, objective, 21, silent)(batch, tmp_path / name)

    session, expected = opened(gguf, silent, "f16"), opened(gguf, silent, "bf16")
    first = updated(session, "0001")
    assert first["overflows"] > 0 and not first["skipped"]
    assert updated(expected, "bf16")["overflows"] == 0
    for one, other in zip(weights(session), weights(expected), strict=True):
        assert torch.allclose(one, other, atol=1e-6)
    assert session._backend.precision == "bf16" and session._optimizer.scale.value == 1
    layer = session._backend._causal.model.layers[0].mlp
    assert layer.up_proj.weight.dtype == layer.gate_proj.base_layer.weight.dtype == torch.bfloat16
    assert layer.gate_proj.lora_A["default"].weight.dtype == torch.float32
    assert updated(session, "0002")["overflows"] == 0


def test_what_is_not_finite_in_bf16_either_is_skipped_and_f16_stays(gguf, tmp_path, silent):
    session = opened(gguf, silent)
    before = weights(session)
    with torch.no_grad():
        session._backend.trainable()[-1].fill_(math.nan)
    bad = write_tree_batch(tmp_path / "bad.safetensors")
    assert session.step(step_settings(bad, tmp_path / "0001"), silent)["skipped"] == "loss"
    assert session._backend.precision == "f16" and session._optimizer.scale.value == FIRST
    layer = session._backend._causal.model.layers[0].mlp
    assert layer.up_proj.weight.dtype == layer.gate_proj.base_layer.weight.dtype == torch.float16
    with torch.no_grad():
        session._backend.trainable()[-1].copy_(before[-1])
    assert session.step(step_settings(bad, tmp_path / "0002"), silent)["applied"]


@pytest.mark.parametrize("objective", ["step", "sft"])
def test_no_second_copy_of_the_weights_is_kept_while_bf16_is_tried(batch, tmp_path, silent, monkeypatch, objective):
    session = opened(large(tmp_path / "large.gguf"), silent)
    backend = session._backend
    hidden, kept, linear = backend.hidden, {}, 0
    for name, module in backend.model.named_modules():
        if isinstance(module, torch.nn.Linear) and "lora" not in name and "lm_head" not in name:
            linear += module.weight.numel()
    own = {parameter.untyped_storage().data_ptr() for parameter in backend.model.parameters()}

    def counting(pack):
        saved = {}

        def seen(tensor):
            storage = tensor.untyped_storage()
            saved[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(seen, lambda tensor: tensor):
            states = hidden(pack)
        if states.requires_grad:
            kept.setdefault(backend.precision, []).append(sum(saved[place] for place in saved.keys() - own))
        return states

    monkeypatch.setattr(backend, "hidden", counting)
    updated = update_of(session, objective, 3, silent)
    assert updated(batch, tmp_path / "0001", microBatchTokens=10)["overflows"] > 0
    (fallback, *_), f16 = kept["bf16"], kept["f16"]
    assert fallback < max(f16) and fallback < 2 * linear
    # Once it has helped the weights are bf16, and activations are kept as was asked for.
    updated(batch, tmp_path / "0002", microBatchTokens=10)
    assert not backend._causal.is_gradient_checkpointing


@pytest.mark.parametrize("objective", ["step", "sft"])
def test_a_gradient_that_is_not_finite_in_any_precision_leaves_the_scale_as_it_was(
    gguf, batch, tmp_path, silent, objective
):
    session = opened(gguf, silent)
    broken = session._backend.trainable()[-1].register_hook(lambda gradient: gradient * math.inf)
    if objective == "step":
        assert session.step(step_settings(batch, tmp_path / "0001"), silent)["skipped"] == "gradient"
    else:
        with pytest.raises(Refused, match="not finite in 3 of 3 updates"):
            session.sft(sft_settings(batch, tmp_path / "sft", epochs=1, updateTrajectories=7), silent)
    assert session._backend.precision == "f16" and session._optimizer.scale.value == FIRST
    broken.remove()
    assert session.step(step_settings(batch, tmp_path / "0002"), silent)["overflows"] == 0
    assert session._optimizer.scale.value == FIRST


def test_falls_of_the_scale_are_taken_back_to_the_last_pass_without_overflow():
    scale = LossScale("f16")
    scale.take_back()
    assert scale.value == FIRST
    assert scale.repeats(1.0, math.inf) and not scale.repeats(1.0, 1.0)
    while scale.repeats(1.0, math.inf):
        pass
    assert scale.value == LEAST
    # As an optimizer does that goes back to its weights of before.
    scale.load(scale.state())
    scale.take_back()
    assert scale.value == FIRST / FALL


def test_the_scale_rises_after_many_passes_without_overflow():
    scale = LossScale("f16")
    assert not any(scale.repeats(1.0, 1.0) for _ in range(PATIENCE - 1))
    assert scale.value == FIRST
    scale.repeats(1.0, 1.0)
    assert scale.value == FIRST * RISE
    assert scale.repeats(1.0, math.inf) and scale.value == FIRST * RISE / FALL
    # A loss that is not finite is no matter of the scale, nor is what has the range of f32.
    assert not scale.repeats(math.nan, math.nan)
    assert LossScale("bf16").value == LossScale("f32").value == 1
    assert not LossScale("bf16").repeats(1.0, math.inf)
    while scale.repeats(1.0, math.inf):
        pass
    assert scale.value == LEAST
