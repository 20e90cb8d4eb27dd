"""The two sides of bench/learner/update.py make the same update."""

import os
import sys

import numpy
import pytest
from conftest import ROOT

SMALL = ["--threads", "1", "--groups", "2", "--size", "4", "--rows", "4", "--prompt", "20", "30"]
SMALL += ["--completion", "60", "80"]


@pytest.fixture
def update(monkeypatch):
    # Restored afterwards: the script sets it for its process.
    monkeypatch.setitem(os.environ, "HF_HUB_OFFLINE", "1")
    monkeypatch.syspath_prepend(str(ROOT / "bench" / "learner"))
    import update

    yield update
    del sys.modules["update"]


def test_hone_and_trl_have_one_loss_and_one_gradient(update, tmp_path, monkeypatch):
    found = {}
    for side in ("hone", "trl"):
        monkeypatch.setattr(sys, "argv", ["update.py", side, *SMALL, "--gradients", str(tmp_path / side)])
        step, result = (update.run_hone if side == "hone" else update.run_trl)(update.parse())
        step()
        found[side] = result()
    ours, theirs = (numpy.fromfile(tmp_path / side, dtype=numpy.float32) for side in found)
    assert found["hone"]["loss"] == pytest.approx(found["trl"]["loss"], rel=1e-4)
    assert found["hone"]["gradNorm"] == pytest.approx(found["trl"]["gradNorm"], rel=1e-3)
    assert found["hone"]["computed"] < found["trl"]["computed"]
    cosine = ours @ theirs / numpy.sqrt((ours @ ours) * (theirs @ theirs))
    assert cosine > 0.9999


def test_the_model_of_a_card_is_one_that_bf16_holds_and_that_of_a_cpu_is_not(update):
    import torch

    assert update.held_by(torch.device("cpu")) is None
    kind = update.held_by(torch.device("cuda"))
    shape = update.SHAPES["tiny"] | {"num_hidden_layers": 1}
    plain, held = (dict(update.make_model(shape, *more).named_parameters()) for more in ((), (kind,)))
    for name, values in held.items():
        assert torch.equal(values, plain[name].to(torch.bfloat16).float())
    assert not torch.equal(held["model.embed_tokens.weight"], plain["model.embed_tokens.weight"])
