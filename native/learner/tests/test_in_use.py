"""The adapter that an update computes with is the one that the engine plays, in which type."""

import pytest
import torch
from batches import open_settings, step_settings, write_random_batch
from learner.as_played import rounding
from learner.errors import Refused
from learner.in_use import InForce
from learner.session import Session

from models import make_model, write_gguf


@pytest.fixture
def session(tmp_path, silent):
    """After an update, of which 0001 is the checkpoint."""
    session = Session(open_settings(write_gguf(make_model("qwen2"), tmp_path / "model.gguf")), silent)
    batch = write_random_batch(tmp_path / "batch")
    assert session.step(step_settings(batch, tmp_path / "0001"), silent)["adapterTypes"] == ["f32"]
    return session


def every(session, folder):
    """Of all layers."""
    layers = sum("lora_A" in name for name, _ in session._backend.model.named_parameters())
    return [InForce(session._backend.model, folder, number) for number in range(layers // 2 + 1)]


@pytest.mark.parametrize("kind", ["f16", "bf16", "f16-a", "bf16-a"])
def test_numbers_in_use_are_the_files_or_those_rounded_to_a_type(session, tmp_path, kind):
    seen = every(session, str(tmp_path / "0001"))
    assert all(one.types() == ["f32"] for one in seen)
    with rounding(session._backend, kind)():
        assert all(one.types() == [kind] for one in seen)
    assert all(one.types() == ["f32"] for one in seen)


def test_an_adapter_that_is_none_of_these_is_refused(session, tmp_path):
    seen = every(session, str(tmp_path / "0001"))
    with torch.no_grad():
        for name, one in session._backend.model.named_parameters():
            if ".lora_B" in name:
                one.mul_(1 + 1e-5)
    for one in seen:
        with pytest.raises(Refused, match="would compute with another adapter of"):
            one.types()


def test_an_update_tells_of_the_type_that_it_computed_with_whoever_rounded(session, tmp_path, silent):
    batch = write_random_batch(tmp_path / "batch")
    asked = step_settings(batch, tmp_path / "0002", adapterType="bf16")
    assert session.step(asked, silent)["adapterTypes"] == ["bf16"]
    with torch.no_grad():
        for one in session._backend.trainable():
            one.copy_(one.bfloat16())
    assert session.step(step_settings(batch, tmp_path / "0003"), silent)["adapterTypes"] == ["bf16"]


def test_a_new_adapter_is_rounded_from_its_first_numbers(tmp_path, silent):
    new = Session(open_settings(write_gguf(make_model("qwen2"), tmp_path / "model.gguf")), silent)
    batch = write_random_batch(tmp_path / "batch")
    # Its B is 0, which nothing rounds.
    told = new.step(step_settings(batch, tmp_path / "0001", adapterType="f16"), silent)["adapterTypes"]
    assert told == ["f16", "f16-a"]
