"""A model that is on the device during updates alone. Where there is one device, a move is one to new tensors."""

import pytest
import torch
from batches import open_settings, step_settings, write_random_batch
from learner import residence
from learner.backend import PeftBackend
from learner.errors import Refused
from learner.optimizer import Optimizer
from learner.request import AdamSettings
from learner.session import Session

from models import make_model, write_gguf


@pytest.fixture
def base(tmp_path):
    return write_gguf(make_model("qwen2"), tmp_path / "model.gguf")


@pytest.fixture
def moves(monkeypatch):
    """Moves copy, as one to another device does, and are noted with what follows them."""
    noted = []
    to_there = Optimizer.move

    def model(self, device):
        noted.append(("model", device.type))
        for tensor in (*self.model.parameters(), *self.model.buffers()):
            tensor.data = tensor.data.clone()

    def optimizer(self, device):
        noted.append(("optimizer", device.type))
        to_there(self, device)
        for state in self._adam.state.values():
            state |= {name: value.clone() for name, value in state.items() if name != "step"}

    monkeypatch.setattr(PeftBackend, "move", model)
    monkeypatch.setattr(Optimizer, "move", optimizer)
    monkeypatch.setattr(residence, "give_back", lambda device: noted.append(("give back", device.type)))
    return noted


def weights(session):
    return [parameter.detach().clone() for parameter in session._backend.trainable()]


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


ROUND = [("model", "cpu"), ("optimizer", "cpu")]


def test_updates_between_moves_are_those_of_a_model_that_stays_bit_for_bit(base, tmp_path, silent, moves):
    staying = Session(open_settings(base), silent)
    moving = Session(open_settings(base, lifetime="step"), silent)
    for number in range(3):
        batch = write_random_batch(tmp_path / f"{number}.safetensors", seed=number)
        for name, session in (("staying", staying), ("moving", moving)):
            session.step(step_settings(batch, tmp_path / name / str(number)), silent)
        assert same(weights(staying), weights(moving))
        states = [session._optimizer.state()["adam"]["state"] for session in (staying, moving)]
        assert states[0].keys() == states[1].keys()
        for key, ours in states[0].items():
            assert all(torch.equal(ours[name], states[1][key][name]) for name in ("step", "exp_avg", "exp_avg_sq"))
    # When it was loaded, the staying one; after that it only gives back.
    assert moves == [("model", "cpu")] + 3 * [("give back", "cpu"), *ROUND, *ROUND, ("give back", "cpu")]


def test_the_model_leaves_after_an_update_that_failed_too(base, tmp_path, silent, moves):
    session = Session(open_settings(base, lifetime="step"), silent)
    assert moves == [], "it was loaded beside the device"
    batch = write_random_batch(tmp_path / "batch.safetensors")

    def out_of_memory(phase, done, total):
        raise MemoryError

    with pytest.raises(MemoryError):
        session.step(step_settings(batch, tmp_path / "0001"), out_of_memory)
    assert moves == [*ROUND, *ROUND, ("give back", "cpu")]


def test_a_device_without_room_is_said_in_one_line_and_the_model_is_where_it_was(base, tmp_path, silent, monkeypatch):
    session = Session(open_settings(base, lifetime="step"), silent)
    batch = write_random_batch(tmp_path / "batch.safetensors")
    places = []

    def move(self, device):
        places.append(device.type)
        if len(places) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(PeftBackend, "move", move)
    with pytest.raises(Refused, match="weights do not fit beside what is on the GPU") as refused:
        session.step(step_settings(batch, tmp_path / "0001"), silent)
    assert "\n" not in str(refused.value)
    assert places == ["cpu", "cpu"]
    monkeypatch.undo()
    assert session.step(step_settings(batch, tmp_path / "0001"), silent)["applied"]


def test_the_moments_follow_the_parameters_and_the_counts_of_steps_stay():
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = Optimizer([parameter], AdamSettings())
    parameter.grad = torch.ones(3)
    optimizer.update(0.1)
    optimizer.move(torch.device("meta"))
    (state,) = optimizer._adam.state.values()
    assert {name: value.device.type for name, value in state.items()} == {
        "step": "cpu",
        "exp_avg": "meta",
        "exp_avg_sq": "meta",
    }


def test_the_whole_model_moves(base, silent):
    backend = Session(open_settings(base), silent)._backend
    assert backend.placed().type == "cpu"
    backend.move(torch.device("meta"))
    assert backend.placed().type == "meta"
    assert {tensor.device.type for tensor in (*backend.model.parameters(), *backend.model.buffers())} == {"meta"}


def test_offload_is_refused_where_there_is_nothing_to_leave(base, silent):
    with pytest.raises(Refused, match=r"computes on the CPU here.*--learner-lifetime step") as refused:
        Session(open_settings(base, lifetime="offload"), silent)
    assert "\n" not in str(refused.value)
