"""A way that fails after its trial costs no update: rows are computed in a simpler one, no gradient counts twice."""

import os
import subprocess

import learner.backend
import pytest
import torch
from batches import open_settings, sft_settings, step_settings, write_tree_batch
from learner import card, flex, fused
from learner.card import BLOCKS, ON_A_CARD, Rows, Way
from learner.compiler import KEPT
from learner.session import Session
from test_flex import uncompiled  # noqa: F401

from models import make_model, write_gguf

FUSED = Way("fused layers", one_call=False, layers=False, fused=True)
ONE_CALL = ON_A_CARD[2]
pytestmark = [pytest.mark.full, pytest.mark.usefixtures("uncompiled")]
TRIED = 896
"""Positions of a trial's longest row; those of the tests are longer."""


class Breaks(torch.autograd.Function):
    """Fails in the backward pass."""

    @staticmethod
    def forward(context, value, error):
        context.error = error
        return value.clone()

    @staticmethod
    def backward(context, gradient):
        raise context.error


def breaks(monkeypatch, when, error, layer=0):
    """One call a layer, and fused layers, fail in rows that no trial had; backwards after the gradients of later
    layers are there."""
    calls = []

    def broken(value, positions):
        if positions <= TRIED:
            return value
        calls.append(positions)
        if when == "forward":
            raise error
        return Breaks.apply(value, error) if len(calls) % 2 == 1 + layer else value

    attend, output = flex.FlexLayout.attend, fused.layer_output
    monkeypatch.setattr(flex.FlexLayout, "attend", lambda self, q, *rest: broken(attend(self, q, *rest), q.shape[2]))

    def layer_output(*arguments):
        hidden, added = output(*arguments)
        return broken(hidden, len(hidden)), added

    monkeypatch.setattr("learner.fused_model.layer_output", layer_output)
    return calls


@pytest.fixture
def trained(tmp_path, silent, monkeypatch):
    """Metrics and adapter of two updates, with rows of several lengths, the longest of which no trial has."""
    file = write_gguf(make_model("qwen2"), tmp_path / "model.gguf")
    batches = [write_tree_batch(tmp_path / f"{seed}.safetensors", groups=14, seed=seed) for seed in range(2)]

    def trained(name, *ways, work="step", **more):
        monkeypatch.setattr(learner.backend, "rows_for", lambda device: Rows(ways))
        session = Session(open_settings(file), silent)
        done = []
        for number, batch in enumerate(batches):
            request = sft_settings if work == "sft" else step_settings
            settings = request(batch, tmp_path / f"{name}-{number}", learningRate=1e-3, **more)
            done.append(getattr(session, work)(settings, silent))
        return done, session._backend

    return trained


def alike(ours, theirs):
    return all(
        torch.allclose(one, other, atol=1e-5) for one, other in zip(ours.trainable(), theirs.trainable(), strict=True)
    )


@pytest.mark.parametrize("when", ["forward", "backward"])
@pytest.mark.parametrize("way", [FUSED, ONE_CALL], ids=lambda way: way.name)
def test_updates_are_those_of_blocks(trained, monkeypatch, when, way):
    more = {"microBatchTokens": 1000, "klCoefficient": 0.1}
    wanted, theirs = trained("blocks", **more)
    assert all(one["microBatches"] > 1 for one in wanted)
    calls = breaks(monkeypatch, when, RuntimeError("a guard that longer rows break"))
    found, ours = trained("falls", way, **more)
    assert calls and ours.rows.way is BLOCKS
    assert found[0]["notes"] == [
        f"the learner goes without {way.name} on cpu: RuntimeError: a guard that longer rows break"
    ]
    assert found[1]["notes"] == []
    for one, other in zip(found, wanted, strict=True):
        for name in ("loss", "gradNorm", "klBase"):
            assert one[name] == pytest.approx(other[name], rel=1e-3, abs=1e-6)
    assert alike(ours, theirs)


@pytest.mark.parametrize("when", ["forward", "backward"])
def test_supervised_updates_are_those_of_blocks(trained, monkeypatch, when):
    more = {"work": "sft", "epochs": 1, "updateTrajectories": 98, "warmup": 0.1, "microBatchTokens": 1000}
    wanted, theirs = trained("blocks", **more)
    calls = breaks(monkeypatch, when, RuntimeError("a guard that longer rows break"))
    found, ours = trained("falls", ONE_CALL, **more)
    assert calls and len(found[0]["notes"]) == 1 and ours.rows.way is BLOCKS
    assert found[1]["loss"]["last"] == pytest.approx(wanted[1]["loss"]["last"], rel=1e-4)
    assert alike(ours, theirs)


def test_code_of_an_earlier_run_that_is_damaged_is_made_anew(trained, monkeypatch, tmp_path):
    cut = tmp_path / "kernels" / "ab" / "cab.py"
    cut.parent.mkdir(parents=True)
    cut.write_text("def call(args")
    monkeypatch.setenv(KEPT, str(tmp_path / "kernels"))
    attend = flex.FlexLayout.attend

    def damaged(self, *arguments):
        # As PyTorch, which does not write a file that is there.
        if cut.exists():
            raise RuntimeError(f"Failed to import {cut}")
        return attend(self, *arguments)

    monkeypatch.setattr(flex.FlexLayout, "attend", damaged)
    found, ours = trained("damaged", ONE_CALL)
    assert ours.rows.way is ONE_CALL
    assert found[0]["notes"] == ["compiled code of an earlier run was damaged and is made anew (files: 1)"]
    assert found[1]["notes"] == []


def test_where_nothing_can_be_kept_updates_are_the_same(trained, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "kernels"
    monkeypatch.setenv(KEPT, str(folder))
    found, ours = trained("unkept", ONE_CALL)
    assert ours.rows.way is ONE_CALL and os.environ.get(KEPT) != str(folder)
    why = f"{folder} cannot be written (Not a directory)"
    assert [one["notes"] for one in found] == [[f"what the learner compiles is not kept for later runs: {why}"], []]


def test_the_next_way_is_tried_before_it_is_taken(trained, monkeypatch):
    def broken(layer, norms, weights, hidden, *rest):
        if len(hidden) > TRIED:
            raise RuntimeError("no such kernel")
        return output(layer, norms, weights, hidden, *rest)

    output = fused.layer_output
    monkeypatch.setattr("learner.fused_model.layer_output", broken)
    found, ours = trained("falls", FUSED, ONE_CALL, microBatchTokens=1000)
    assert ours.rows.way is ONE_CALL and len(found[0]["notes"]) == 1


def test_a_lack_of_memory_is_told_and_leaves_the_way(trained, monkeypatch):
    breaks(monkeypatch, "backward", MemoryError())
    held = []
    monkeypatch.setattr(Rows, "falls_back", lambda *all, was=Rows.falls_back: held.append(all[0]) or was(*all))
    with pytest.raises(MemoryError):
        trained("falls", ONE_CALL, microBatchTokens=1000)
    assert held and held[0].way is ONE_CALL and held[0].notes() == []


def test_an_error_in_blocks_is_told(trained, monkeypatch):
    monkeypatch.setattr(card.Layout, "attend", lambda *_: (_ for _ in ()).throw(RuntimeError("no such kernel")))
    with pytest.raises(RuntimeError, match="no such kernel"):
        trained("blocks")


@pytest.mark.parametrize("part", ["computed_rows", "limits"])
def test_a_trial_that_fails_costs_no_update(trained, monkeypatch, part):
    """In blocks, or in what is compared with them."""
    _, theirs = trained("blocks")

    def failing(*_):
        raise subprocess.CalledProcessError(1, ["/usr/bin/gcc", "/tmp/x/cuda_utils.c", "-lcuda"])

    monkeypatch.setattr(card, part, failing)
    found, ours = trained("fails", ONE_CALL)
    (note,) = found[0]["notes"]
    assert ours.rows.way is BLOCKS and alike(ours, theirs)
    assert note.startswith("the learner computes in blocks on cpu: the trial fails: CalledProcessError: ")
    assert found[1]["notes"] == []


def test_without_a_compiler_all_ways_are_left_at_once_and_one_line_says_so(trained, monkeypatch):
    tried = []

    def failing(graph, inputs):
        tried.append(graph)
        raise subprocess.CalledProcessError(1, ["/usr/bin/gcc", "/tmp/x/cuda_utils.c", "-lcuda"])

    monkeypatch.setitem(card.COMPILED, "backend", failing)
    found, ours = trained("without", *ON_A_CARD)
    assert ours.rows.way is BLOCKS and len(tried) == 1
    (note,) = found[0]["notes"]
    assert note.startswith("the learner compiles nothing on cpu") and "apt install gcc python3-dev" in note
    assert "\n" not in note and found[1]["notes"] == []
