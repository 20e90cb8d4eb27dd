"""An update's Adam and its files, checked by another way: silent where nothing is wrong, only there."""

import dataclasses

import pytest
import torch
from batches import open_settings, step_settings, write_random_batch
from learner import checkpoint
from learner.adam import make_adam
from learner.errors import Refused
from learner.request import AdamSettings
from learner.session import Session
from learner.written_check import AdamStep
from safetensors.torch import load_file, save_file

from models import make_model, write_gguf


@pytest.fixture
def session(tmp_path, silent):
    return Session(open_settings(write_gguf(make_model("llama"), tmp_path / "model.gguf")), silent)


def test_a_learner_that_does_not_go_on_with_what_the_files_have_is_refused(session, tmp_path, silent, monkeypatch):
    folder = tmp_path / "0001"
    session.step(step_settings(write_random_batch(tmp_path / "batch"), folder), silent)
    opened = open_settings(tmp_path / "model.gguf", resume=str(folder))
    Session(opened, silent)
    loaded = checkpoint.set_peft_model_state_dict

    def doubled(model, weights):
        loaded(model, {name: 2 * one if "lora_B" in name else one for name, one in weights.items()})

    for place, fault in (
        ((checkpoint, "set_peft_model_state_dict"), doubled),
        ((checkpoint.Optimizer, "load"), lambda self, state: None),
    ):
        with monkeypatch.context() as patch, pytest.raises(Refused, match="from which it was to go on"):
            patch.setattr(*place, fault)
            Session(opened, silent)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_goes_on_from_an_adapter_that_another_program_wrote_in_16_bits(session, tmp_path, silent, kind):
    folder = tmp_path / "0001"
    session.step(step_settings(write_random_batch(tmp_path / "batch"), folder), silent)
    file = folder / "adapter/adapter_model.safetensors"
    written = {name: one.to(kind) for name, one in load_file(file).items()}
    save_file(written, file)
    (folder / "optimizer.pt").unlink()
    opened = Session(open_settings(tmp_path / "model.gguf", resume=str(folder)), silent)
    opened.step(step_settings(tmp_path / "batch", tmp_path / "0002", learningRate=0), silent)
    now = load_file(tmp_path / "0002/adapter/adapter_model.safetensors")
    assert all(torch.equal(now[name], one.float()) for name, one in written.items())


def adam_of(count=3, **settings):
    generator = torch.Generator().manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(8, 16, generator=generator)) for _ in range(count)]
    return make_adam(parameters, AdamSettings(**settings)), parameters, generator


def take_step(adam, parameters, generator, number, rate, change=lambda: None, settings=None):
    for group in adam.param_groups:
        group["lr"] = rate
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=generator) * 10.0 ** (number - 5)
    again = AdamStep(adam, parameters, number, settings or AdamSettings())
    change()
    adam.step()
    return again


@pytest.mark.parametrize("settings", [{}, {"betas": (0.8, 0.95), "weight_decay": 0.0}])
def test_adam_is_pytorchs_for_gradients_of_all_sizes_and_any_learning_rate(settings):
    adam, parameters, generator = adam_of(**settings)
    for number, rate in enumerate([1e-3, 1e-5, 0.0, 1e-1, 1e-7, 2e-5, 1e-4]):
        take_step(adam, parameters, generator, number, rate, settings=AdamSettings(**settings)).check(rate)


def test_betas_and_a_decay_that_are_not_the_requests_are_refused():
    for other in ({"betas": (0.99, 0.9)}, {"weight_decay": 0.0}):
        adam, parameters, generator = adam_of(1, **other)
        take_step(adam, parameters, generator, 0, 1e-2)
        with pytest.raises(Refused, match="by Adam"):
            take_step(adam, parameters, generator, 1, 1e-2).check(1e-2)


def test_a_decay_that_is_left_out_is_refused_at_small_rates_too():
    adam, parameters, generator = adam_of(1, weight_decay=0.0)
    for number in range(2):
        again = take_step(adam, parameters, generator, number, 2e-4)
    with pytest.raises(Refused, match="by Adam"):
        again.check(2e-4)


def test_another_rate_moments_of_another_run_and_a_lost_update_are_refused():
    adam, parameters, generator = adam_of(1)
    for number in range(3):
        take_step(adam, parameters, generator, number, 1e-4).check(1e-4)
    with pytest.raises(Refused, match="by Adam is not what its gradient, moments and the learning rate 1e-05 give"):
        take_step(adam, parameters, generator, 3, 1e-4).check(1e-5)

    def disturb():
        for state in adam.state.values():
            state["exp_avg"].normal_(0, float(state["exp_avg"].std()))

    with pytest.raises(Refused, match="by Adam"):
        take_step(adam, parameters, generator, 4, 1e-4, disturb).check(1e-4)
    parameters[0].grad = torch.ones_like(parameters[0])
    lost = AdamStep(adam, parameters, 5, AdamSettings())
    with pytest.raises(Refused, match="by Adam"):
        lost.check(1e-4)


def test_an_adam_that_makes_no_first_step_is_refused():
    parameter = torch.nn.Parameter(torch.ones(4))
    parameter.grad = torch.ones(4)
    again = AdamStep(torch.optim.AdamW([parameter], lr=1e-3), [parameter], 0, AdamSettings())
    with pytest.raises(Refused, match="was not made"):
        again.check(1e-3)


WRONG = {
    "of half the rank": lambda state: {
        name: one * (torch.arange(len(one)) < len(one) // 2)[:, None] if "lora_A" in name else one
        for name, one in state.items()
    },
    "rounded to bf16": lambda state: {name: one.bfloat16().float() for name, one in state.items()},
    "doubled": lambda state: {name: 2 * one if "lora_B" in name else one for name, one in state.items()},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_an_engines_adapter_that_is_not_the_learners_is_refused(session, tmp_path, silent, monkeypatch, wrong):
    write = checkpoint.write_gguf_adapter
    monkeypatch.setattr(
        checkpoint, "write_gguf_adapter", lambda state, *rest, **by: write(WRONG[wrong](state), *rest, **by)
    )
    batch = write_random_batch(tmp_path / "batch.safetensors")
    with pytest.raises(Refused, match=r"adapter\.gguf, which the engine loads, has not the adapter that was trained"):
        session.step(step_settings(batch, tmp_path / "0001"), silent)


def test_an_optimizers_state_that_is_an_older_one_is_refused(session, tmp_path, silent, monkeypatch):
    batch = write_random_batch(tmp_path / "batch.safetensors")
    session.step(step_settings(batch, tmp_path / "0001"), silent)
    older = session._optimizer.snapshot()["state"]
    save = torch.save
    monkeypatch.setattr(torch, "save", lambda _, path: save(older, path))
    with pytest.raises(Refused, match=r"optimizer\.pt of the checkpoint has not what was written to it"):
        session.step(step_settings(batch, tmp_path / "0002"), silent)


def test_moments_that_an_update_leaves_rounded_or_that_change_before_the_next_one_are_refused(
    session, tmp_path, silent, monkeypatch
):
    batch = write_random_batch(tmp_path / "batch")
    optimizer = session._optimizer
    session.step(step_settings(batch, tmp_path / "0001"), silent)
    adam, step = optimizer._adam, optimizer._adam.step

    def rounded():
        step()
        for state in adam.state.values():
            state["exp_avg"].copy_(state["exp_avg"].bfloat16())

    with monkeypatch.context() as patch, pytest.raises(Refused, match="by Adam leaves other moments"):
        patch.setattr(adam, "step", rounded)
        session.step(step_settings(batch, tmp_path / "0002"), silent)
    # As they were before the update that was refused.
    session.step(step_settings(batch, tmp_path / "0002"), silent)
    for state in adam.state.values():
        state["exp_avg_sq"].mul_(1.01)
    with pytest.raises(Refused, match="are not those that the update before left"):
        session.step(step_settings(batch, tmp_path / "0003"), silent)


def test_a_checkpoint_of_rounded_moments_is_refused(session, tmp_path, silent, monkeypatch):
    state = checkpoint.Optimizer.state

    def rounded(self):
        whole = state(self)
        moments = {
            number: {name: one if name == "step" else one.bfloat16().float() for name, one in own.items()}
            for number, own in whole["adam"]["state"].items()
        }
        return whole | {"adam": whole["adam"] | {"state": moments}}

    monkeypatch.setattr(checkpoint.Optimizer, "state", rounded)
    with pytest.raises(Refused, match=r"optimizer\.pt of the checkpoint has not what was written to it"):
        session.step(step_settings(write_random_batch(tmp_path / "batch"), tmp_path / "0001"), silent)


@pytest.mark.parametrize("fresh", [True, False])
def test_an_adam_that_begins_anew_in_a_step_is_refused(tmp_path, silent, monkeypatch, fresh):
    opened = open_settings(write_gguf(make_model("llama"), tmp_path / "model.gguf"))
    batch = write_random_batch(tmp_path / "batch")
    learner = Session(opened, silent)
    learner.step(step_settings(batch, tmp_path / "0001"), silent)
    if fresh:
        learner = Session(dataclasses.replace(opened, resume=str(tmp_path / "0001")), silent)
    begin = learner._optimizer.begin

    def anew(objective):
        begin(objective)
        learner._optimizer._adam.state.clear()

    with monkeypatch.context() as patch, pytest.raises(Refused, match="are not those that the update before left"):
        patch.setattr(learner._optimizer, "begin", anew)
        learner.step(step_settings(batch, tmp_path / "0002"), silent)
