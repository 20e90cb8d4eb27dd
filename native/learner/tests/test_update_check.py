"""What an update is computed from, checked by another way: silent where nothing is wrong, only there."""

import contextlib
import dataclasses
import functools

import pytest
import torch
from batches import (
    OBJECTIVES,
    open_settings,
    random_batch,
    step_settings,
    tree_batch,
    write_random_batch,
    write_tree_batch,
)
from learner import checkpoint, loss
from learner.attention import Layout
from learner.batch import read_batch
from learner.errors import Refused
from learner.minibatches import minibatches_of, scales_of
from learner.packing import plan_trajectories
from learner.ranks import ALONE
from learner.session import Session
from learner.update_check import (
    check_apart,
    check_clear,
    check_old,
    check_rows,
    check_scaled,
    check_scales,
    check_tokens,
    check_trained,
)

from models import make_model, write_gguf


@pytest.fixture
def session(tmp_path, silent):
    return Session(open_settings(write_gguf(make_model("llama"), tmp_path / "model.gguf")), silent)


@pytest.mark.parametrize("make", [random_batch, tree_batch])
@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize("budget", [20, 4096])
def test_rows_of_rollouts_and_of_trees_are_what_they_should_be(tmp_path, make, shares, budget):
    trajectories = make(tmp_path).sequences
    check_rows(plan_trajectories(trajectories, budget, shares), trajectories)


def changed(pack, **parts):
    return dataclasses.replace(pack, **parts)


FAULTS = {
    "a token's predecessor": lambda pack: changed(pack, sources=pack.sources.roll(1)),
    "an id": lambda pack: changed(pack, ids=pack.ids.index_fill(0, torch.tensor([0]), int(pack.ids[0]) + 1)),
    "positions": lambda pack: changed(
        pack, positions=pack.positions + (pack.positions > pack.positions.max() // 2).long()
    ),
    "branches on the wrong parent, in the mask": lambda pack: changed(
        pack, ends=torch.full_like(pack.ends, len(pack.ends))
    ),
    "branches on the wrong parent, in the segments": lambda pack: changed(
        pack, segments=tuple(dataclasses.replace(one, before=()) for one in pack.segments)
    ),
    "a target": lambda pack: changed(pack, targets=pack.targets.flip(0)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_rows_with_another_path_are_refused(tmp_path, fault):
    trajectories = tree_batch(tmp_path).sequences
    packs = [FAULTS[fault](pack) for pack in plan_trajectories(trajectories, 4096)]
    with pytest.raises(Refused, match="positions, predecessors or allowed tokens than its own"):
        check_rows(packs, trajectories)


def test_rows_that_lack_a_rollout_or_have_one_twice_are_refused(tmp_path):
    trajectories = random_batch(tmp_path).sequences
    for other in (trajectories[1:], [*trajectories, trajectories[0]]):
        with pytest.raises(Refused, match="not each of"):
            check_rows(plan_trajectories(other, 4096), trajectories)


def test_tokens_whose_gradient_was_never_added_or_twice_are_refused_and_a_policy_before_the_step_made_anew():
    old = torch.tensor([-1.0, -2.0, -3.0])
    check_tokens(torch.full((3,), 2.0), 2)
    check_old(old, old.clone())
    for counts in ([2.0, 0.0, 2.0], [2.0, 2.0, 4.0]):
        with pytest.raises(Refused, match="the gradients of 1 of the step's 3 tokens were not added 2 times each"):
            check_tokens(torch.tensor(counts), 2)
    with pytest.raises(Refused, match="made anew between its updates"):
        check_old(old + 1e-6, old)


@pytest.mark.parametrize("row", [0, 2])
def test_an_update_of_which_a_row_has_no_backward_pass_is_refused(session, tmp_path, silent, monkeypatch, row):
    backward, count = session._backend.backward, []

    def without_one(hidden, gradient):
        count.append(hidden)
        # The first rows are the rehearsal's.
        if len(count) != 3 + row:
            backward(hidden, gradient)

    monkeypatch.setattr(session._backend, "backward", without_one)
    batch = write_random_batch(tmp_path / "batch")
    with pytest.raises(Refused, match=r"the gradients of \d+ of the step's \d+ tokens were not added 1 times each"):
        session.step(step_settings(batch, tmp_path / "0001", microBatchTokens=60), silent)


def test_an_update_that_leaves_a_part_of_the_adapter_drops_at_random_or_keeps_gradients_is_refused(session):
    model = session._backend.model
    parameters = session._backend.trainable()
    check_trained(model, parameters)
    with pytest.raises(Refused, match=r"lora_B.* it is not trained"):
        check_trained(model, [one for one in parameters if one is not parameters[-1]])
    parameters[3].grad = torch.zeros_like(parameters[3])
    with pytest.raises(Refused, match="gradients of an earlier update are left"):
        check_clear(parameters)
    parameters[3].grad = None
    check_clear(parameters)
    model.add_module("dropped", torch.nn.Dropout(0.1))
    with pytest.raises(Refused, match="the model has dropout in dropped"):
        check_trained(model, parameters)


def test_a_rollout_that_its_row_changes_is_refused(session, tmp_path, silent, monkeypatch):
    check_apart(torch.tensor([-1.0, -2.0]), torch.tensor([-1.0, -2.0001]), "f32")
    with pytest.raises(Refused, match=r"in an update's row than in a row of its own: by 0\.05"):
        check_apart(torch.tensor([-1.0, -2.0]), torch.tensor([-1.0, -2.1]), "f32")
    # The rehearsal is past.
    batch = write_random_batch(tmp_path / "batch", temperature=0.8)
    session.step(step_settings(batch, tmp_path / "0001"), silent)

    def siblings_see_each_other(self, block, window):
        parts = (*block.before, (block.start, block.end))
        return torch.cat([torch.arange(*part) for part in parts]) > torch.arange(block.start, block.end)[:, None]

    monkeypatch.setattr(Layout, "_hidden", siblings_see_each_other)
    with pytest.raises(Refused, match="than in a row of its own"):
        session.step(step_settings(batch, tmp_path / "0002"), silent)


def test_a_step_is_made_of_the_batch_and_the_adapter_that_it_names(tmp_path):
    write_gguf(make_model("qwen2"), tmp_path / "model.gguf")
    batch = write_random_batch(tmp_path / "batch.safetensors")
    session = Session(open_settings(tmp_path / "model.gguf"), lambda *_: None)
    step = step_settings(batch, tmp_path / "one")
    temperature = read_batch(batch, 96).temperature
    with pytest.raises(Refused, match="would train at temperature"):
        session.step(dataclasses.replace(step, temperature=temperature + 0.1), lambda *_: None)
    with pytest.raises(Refused, match="go on from a new adapter, and the run stands at the adapter beef"):
        session.step(dataclasses.replace(step, adapter="beef"), lambda *_: None)
    session.step(dataclasses.replace(step, adapter=None, temperature=temperature), lambda *_: None)
    first = checkpoint.digest(tmp_path / "one")
    second = dataclasses.replace(step, into=str(tmp_path / "two"), adapter=first)
    with pytest.raises(Refused, match="and the run stands at a new adapter"):
        session.step(dataclasses.replace(second, adapter=None), lambda *_: None)
    session.step(second, lambda *_: None)
    resumed = Session(open_settings(tmp_path / "model.gguf", resume=str(tmp_path / "one")), lambda *_: None)
    with pytest.raises(Refused, match=f"go on from the adapter {first[:12]}"):
        resumed.step(dataclasses.replace(second, adapter=checkpoint.digest(tmp_path / "two")), lambda *_: None)


def test_an_adapter_of_another_scale_is_refused(tmp_path):
    write_gguf(make_model("qwen2"), tmp_path / "model.gguf")
    settings = open_settings(tmp_path / "model.gguf")
    model = Session(settings, lambda *_: None)._backend.model
    check_scaled(model, settings.lora)
    with pytest.raises(Refused, match="is scaled by"):
        check_scaled(model, dataclasses.replace(settings.lora, alpha=3 * settings.lora.alpha))


def test_an_update_that_keeps_the_gradients_of_the_one_before_in_its_step_is_refused(
    session, tmp_path, silent, monkeypatch
):
    batch = write_random_batch(tmp_path / "batch")
    clear, update = session._optimizer.clear, session._optimizer.update
    lost = []

    def after_update(rate):
        update(rate)
        lost.append(rate)

    monkeypatch.setattr(session._optimizer, "update", after_update)
    # The first after an update.
    monkeypatch.setattr(session._optimizer, "clear", lambda: lost.pop() if lost else clear())
    with pytest.raises(Refused, match="gradients of an earlier update are left"):
        session.step(step_settings(batch, tmp_path / "0001", epochs=2), silent)


@pytest.mark.parametrize("name", list(OBJECTIVES))
@pytest.mark.parametrize("minibatches", [1, 3])
@pytest.mark.parametrize("played", [{}, {"rollouts": 40, "sampledTokens": 900}])
def test_the_shares_of_a_mean_are_those_of_the_tokens_own_rollouts(
    session, tmp_path, monkeypatch, name, minibatches, played
):
    batch = read_batch(write_tree_batch(tmp_path / "batch"), 96)
    more = {"objective": OBJECTIVES[name], "maxCompletionTokens": 50, "minibatches": minibatches} | played
    request = step_settings("", tmp_path / "0001", **more)
    dealt = minibatches_of(session._backend, batch, request, ALONE)
    scales = scales_of(batch, dealt, request)
    updates = [one.slots for one in dealt]
    check_scales(scales, batch.of_rollout, updates, request)
    for other in (scales * 1.01, scales.where(batch.of_rollout != 2, 0)):
        with pytest.raises(Refused, match="do not weigh in the mean of an update"):
            check_scales(other, batch.of_rollout, updates, request)
    if request.objective.normaliser == "sequences":
        scale = loss.token_scale
        monkeypatch.setattr(loss, "token_scale", lambda objective, *rest: scale(objective, *rest).roll(1))
        with pytest.raises(Refused, match="do not weigh in the mean of an update"):
            check_scales(scales_of(batch, dealt, request), batch.of_rollout, updates, request)


def test_updates_of_a_step_that_do_not_move_its_policy_are_refused(session, tmp_path, silent, monkeypatch):
    batch = write_random_batch(tmp_path / "still")
    adam = session._optimizer
    update, rates = adam.update, []

    def last_alone(rate):
        rates.append(rate)
        update(rate if len(rates) == 3 else 0.0)

    monkeypatch.setattr(adam, "update", last_alone)
    with pytest.raises(Refused, match="exactly 1 in all of 2 updates after the first"):
        session.step(step_settings(batch, tmp_path / "still1", epochs=3), silent)
    monkeypatch.undo()
    # A rate of 0, as at the end of a schedule, moves nothing.
    session.step(step_settings(batch, tmp_path / "still2", epochs=3, learningRate=0.0), silent)
    session.step(step_settings(batch, tmp_path / "still3", epochs=3), silent)


@pytest.mark.parametrize("kl", [0.0, 0.1])
def test_a_policy_that_is_the_base_model_though_its_adapter_is_not_0_is_refused(
    session, tmp_path, silent, monkeypatch, kl
):
    batch = write_random_batch(tmp_path / "base")
    # A new adapter is 0: then the two are one.
    settings = functools.partial(step_settings, batch, klCoefficient=kl)
    session.step(settings(tmp_path / "base1"), silent)
    session.step(settings(tmp_path / "base2"), silent)
    monkeypatch.setattr(session._backend, "base_policy", contextlib.nullcontext)
    with pytest.raises(Refused, match="the policy is the base model"):
        session.step(settings(tmp_path / "base3"), silent)
