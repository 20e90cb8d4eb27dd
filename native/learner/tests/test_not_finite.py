"""Updates whose numbers are not finite: nothing of them stays, and hone is told in words that JSON has."""

import copy
import json
import math

import pytest
import torch
from batches import open_settings, sft_settings, step_settings, write_random_batch
from learner import protocol
from learner.errors import Refused
from learner.session import Session

from models import make_model, write_gguf


@pytest.fixture
def session(tmp_path, silent):
    return Session(open_settings(write_gguf(make_model("qwen2"), tmp_path / "model.gguf")), silent)


@pytest.fixture
def batch(tmp_path):
    return write_random_batch(tmp_path / "batch.safetensors")


def state(session):
    return copy.deepcopy(session._optimizer.snapshot())


def tensors(value):
    """All tensors in nested plain data, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [tensor for child in children for tensor in tensors(child)]


def test_a_later_epoch_that_is_not_finite_takes_the_earlier_ones_back(session, batch, tmp_path, silent):
    session.step(step_settings(batch, tmp_path / "0001"), silent)
    before = state(session)
    # The first epoch is applied, and makes weights that nothing can be computed with.
    settings = step_settings(batch, tmp_path / "0002", epochs=3, learningRate=1e30)
    metrics = session.step(settings, silent)
    assert metrics["skipped"] == "loss" and not (tmp_path / "0002").exists()
    after = state(session)
    assert after["state"]["updates"] == 1
    pairs = list(zip(tensors(before), tensors(after), strict=True))
    assert len(pairs) > 20
    assert all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize("kl", [0, 0.1])
def test_metrics_of_a_broken_policy_are_json(session, batch, tmp_path, silent, kl):
    with torch.no_grad():
        session._backend.trainable()[-1].fill_(math.nan)
    metrics = session.step(step_settings(batch, tmp_path / "0001", klCoefficient=kl), silent)
    assert metrics["skipped"] == "loss"
    assert json.loads(json.dumps(metrics, allow_nan=False))["klBase"] is None


def test_imitation_without_a_finite_update_is_refused_and_writes_nothing(session, tmp_path, silent):
    batch = write_random_batch(tmp_path / "bad.safetensors", advantage=math.inf)
    settings = sft_settings(batch, tmp_path / "sft", epochs=2, updateTrajectories=4)
    with pytest.raises(Refused, match="not finite in 6 of 6 updates"):
        session.sft(settings, silent)
    assert not (tmp_path / "sft").exists()


def test_imitation_shows_progress_before_the_first_row_and_with_every_row(session, batch, tmp_path, monkeypatch):
    monkeypatch.setattr(protocol, "BEAT_SECONDS", math.inf)
    seen = []
    settings = sft_settings(batch, tmp_path / "sft", epochs=1, updateTrajectories=12, microBatchTokens=20)
    session.sft(settings, lambda phase, done, total: seen.append((phase, done, total)))
    assert seen == [*[("update", 0, 1)] * 13, ("update", 1, 1), ("saving", 0, 1)]
