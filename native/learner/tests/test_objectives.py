"""The optimizer's state belongs to one objective: after imitation it starts anew, in a fork of a run it goes on."""

import json
import shutil

import pytest
import torch
from batches import open_settings, sft_settings, step_settings, write_random_batch
from learner.session import Session

from models import make_model, write_gguf

RATE = 1e-3
BETAS, DECAY = (0.9, 0.99), 0.1


@pytest.fixture
def base(tmp_path):
    return write_gguf(make_model("qwen2"), tmp_path / "model.gguf")


@pytest.fixture
def batch(tmp_path):
    return write_random_batch(tmp_path / "batch.safetensors")


@pytest.fixture
def imitated(base, tmp_path, silent):
    """The folder of a supervised checkpoint: nine updates with gradients of another size."""
    imitation = write_random_batch(tmp_path / "imitation.safetensors", advantage=1.0, seed=3)
    settings = sft_settings(imitation, tmp_path / "sft", epochs=3, updateTrajectories=4)
    assert Session(open_settings(base), silent).sft(settings, silent)["updates"] == 9
    return tmp_path / "sft"


def weights(session):
    return [parameter.detach().clone() for parameter in session._backend.trainable()]


def moments(folder):
    return torch.load(folder / "optimizer.pt", weights_only=True)


def identical(one, other):
    """Of nested plain data with tensors: every bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(identical(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(identical(a, b) for a, b in zip(one, other, strict=True))
    return one == other


def watch_gradients(session, monkeypatch):
    """Fills the returned list with the clipped gradients of each update."""
    seen = []
    clip = session._optimizer.clip

    def watched(max_norm):
        norm = clip(max_norm)
        seen.append([parameter.grad.clone() for parameter in session._backend.trainable()])
        return norm

    monkeypatch.setattr(session._optimizer, "clip", watched)
    return seen


def flat(tensors):
    return torch.cat([tensor.flatten() for tensor in tensors])


@pytest.mark.parametrize("through_a_file", [True, False])
def test_the_first_step_after_imitation_is_that_of_a_fresh_adam(
    base, batch, imitated, tmp_path, silent, monkeypatch, through_a_file
):
    if through_a_file:
        session = Session(open_settings(base, resume=str(imitated)), silent)
    else:
        session = Session(open_settings(base), silent)
        imitation = sft_settings(batch, tmp_path / "again", epochs=3, updateTrajectories=4)
        session.sft(imitation, silent)
    before = weights(session)
    gradients = watch_gradients(session, monkeypatch)
    session.step(step_settings(batch, tmp_path / "0001", learningRate=RATE), silent)
    after = weights(session)

    fresh = [weight.clone().requires_grad_(True) for weight in before]
    for weight, gradient in zip(fresh, gradients[-1], strict=True):
        weight.grad = gradient
    torch.optim.AdamW(fresh, lr=RATE, betas=BETAS, weight_decay=DECAY).step()
    assert torch.allclose(flat(after), flat(fresh), rtol=0, atol=1e-6)

    # Without decay, the first step of Adam has the sign of the gradient and the size of the rate wherever there is one.
    gradient = flat(gradients[-1])
    moved = flat(after) - flat(before) * (1 - RATE * DECAY)
    assert torch.cosine_similarity(moved, -gradient.sign(), dim=0) > 0.999
    assert moved.abs().median() == pytest.approx(RATE, rel=1e-3)
    assert moments(tmp_path / "0001")["updates"] == 1


def test_the_random_state_after_imitation_is_that_of_a_new_adapter_of_the_same_seed(
    base, batch, imitated, tmp_path, silent
):
    Session(open_settings(base, seed=5, resume=str(imitated)), silent).step(
        step_settings(batch, tmp_path / "forked"), silent
    )
    Session(open_settings(base, seed=5), silent).step(step_settings(batch, tmp_path / "new"), silent)
    assert torch.equal(moments(tmp_path / "forked")["random"], moments(tmp_path / "new")["random"])
    assert not torch.equal(moments(tmp_path / "forked")["random"], moments(imitated)["random"])


def test_imitation_that_goes_on_keeps_its_moments(base, batch, imitated, tmp_path, silent):
    session = Session(open_settings(base, resume=str(imitated)), silent)
    session.sft(sft_settings(batch, tmp_path / "more", epochs=1, updateTrajectories=4), silent)
    assert moments(tmp_path / "more")["updates"] == 12


def test_the_second_step_after_imitation_keeps_the_moments_of_the_first(base, batch, imitated, tmp_path, silent):
    """Also by a learner that was ended between them."""
    straight = Session(open_settings(base, resume=str(imitated)), silent)
    straight.step(step_settings(batch, tmp_path / "0001"), silent)
    straight.step(step_settings(batch, tmp_path / "0002"), silent)
    again = Session(open_settings(base, resume=str(tmp_path / "0001")), silent)
    again.step(step_settings(batch, tmp_path / "again"), silent)
    assert moments(tmp_path / "0002")["updates"] == 2
    assert identical(moments(tmp_path / "again"), moments(tmp_path / "0002"))


def test_a_fork_of_a_run_keeps_moments_and_random_state_bit_for_bit(base, batch, tmp_path, silent):
    straight = Session(open_settings(base), silent)
    for number in (1, 2, 3):
        straight.step(step_settings(batch, tmp_path / str(number)), silent)
    fork = tmp_path / "fork"
    shutil.copytree(tmp_path / "2", fork)
    (fork / "manifest.json").write_text(json.dumps({"step": 0, "origin": {"run": "first", "step": 2}}))

    forked = Session(open_settings(base, seed=99, resume=str(fork)), silent)
    assert torch.equal(torch.get_rng_state(), moments(tmp_path / "2")["random"])
    assert identical(forked._optimizer.state()["adam"]["state"], moments(tmp_path / "2")["adam"]["state"])
    assert forked._optimizer.updates == 2
    forked.step(step_settings(batch, tmp_path / "forked"), silent)
    assert identical(moments(tmp_path / "forked"), moments(tmp_path / "3"))
    assert identical(weights(forked), weights(straight))


def test_a_learner_on_the_cpu_saves_the_random_state_of_no_gpu(base, silent, monkeypatch):
    """Asking one for it takes memory there, which the engine may have."""

    def no_memory(*_):
        raise torch.cuda.OutOfMemoryError

    session = Session(open_settings(base), silent)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state", no_memory)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", no_memory)
    session._optimizer.restore(session._optimizer.snapshot())
