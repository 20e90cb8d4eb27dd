"""Moments of 8 bits: bitsandbytes' AdamW in place of PyTorch's."""

import builtins
import importlib.util

import pytest
import torch
from batches import open_settings, step_settings, write_random_batch
from learner.errors import Refused
from learner.session import Session

from models import make_model, write_gguf

installed = pytest.mark.skipif(
    importlib.util.find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed here"
)
# Matrices of 4096 numbers and more have moments of 8 bits.
LORA = {"rank": 128, "alpha": 128, "targets": ["q_proj", "down_proj"]}


@pytest.fixture
def base(tmp_path):
    return write_gguf(make_model("qwen2"), tmp_path / "model.gguf")


def opened(base, silent, bits, **more):
    return Session(open_settings(base, lora=LORA, optimizer={"bits": bits}, **more), silent)


def weights(session):
    return torch.cat([parameter.detach().flatten() for parameter in session._backend.trainable()])


@installed
def test_updates_with_8_bits_are_nearly_those_with_32_in_a_quarter_of_the_room(base, tmp_path, silent):
    batch = write_random_batch(tmp_path / "batch.safetensors")
    before, after, sizes = {}, {}, {}
    for bits in (8, 32):
        session = opened(base, silent, bits)
        before[bits] = weights(session).clone()
        for update in range(3):
            session.step(step_settings(batch, tmp_path / str(bits) / str(update), learningRate=1e-3), silent)
        after[bits] = weights(session) - before[bits]
        sizes[bits] = (tmp_path / str(bits) / "2" / "optimizer.pt").stat().st_size
    assert torch.equal(before[8], before[32])
    assert torch.nn.functional.cosine_similarity(after[8], after[32], dim=0) > 0.99
    assert not torch.equal(after[8], after[32])
    assert sizes[8] < sizes[32] / 2


@installed
def test_a_run_goes_on_from_its_checkpoint_as_if_it_had_not_stopped(base, tmp_path, silent):
    batch = write_random_batch(tmp_path / "batch.safetensors")
    first = opened(base, silent, 8)
    first.step(step_settings(batch, tmp_path / "0001"), silent)
    second = opened(base, silent, 8, resume=str(tmp_path / "0001"))
    for name, session in (("a", first), ("b", second)):
        session.step(step_settings(batch, tmp_path / name), silent)
    assert torch.equal(weights(first), weights(second))


@installed
def test_an_update_that_is_skipped_leaves_the_moments_as_they_were(base, tmp_path, silent):
    batch = write_random_batch(tmp_path / "batch.safetensors")
    broken = write_random_batch(tmp_path / "broken.safetensors", advantage=float("inf"))
    ours, theirs = opened(base, silent, 8), opened(base, silent, 8)
    for session in (ours, theirs):
        session.step(step_settings(batch, tmp_path / "0001"), silent)
    assert ours.step(step_settings(broken, tmp_path / "no"), silent)["skipped"] == "loss"
    for session in (ours, theirs):
        session.step(step_settings(batch, tmp_path / "0002"), silent)
    assert torch.equal(weights(ours), weights(theirs))


@installed
@pytest.mark.parametrize("began, goes_on", [(8, 32), (32, 8)])
def test_moments_of_another_width_are_refused_with_the_width_to_go_on_with(base, tmp_path, silent, began, goes_on):
    batch = write_random_batch(tmp_path / "batch.safetensors")
    opened(base, silent, began).step(step_settings(batch, tmp_path / "0001"), silent)
    with pytest.raises(Refused, match=f"moments in {began} bits.*go on with --adam-bits {began}"):
        opened(base, silent, goes_on, resume=str(tmp_path / "0001"))


def test_without_bitsandbytes_the_refusal_says_how_to_add_it(base, silent, monkeypatch):
    real = builtins.__import__

    def lacking(name, *rest, **more):
        if name == "bitsandbytes":
            raise ModuleNotFoundError("No module named 'bitsandbytes'")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", lacking)
    with pytest.raises(Refused, match=r"--adam-bits 8 needs bitsandbytes.*doctor --install --learner unsloth"):
        opened(base, silent, 8)
