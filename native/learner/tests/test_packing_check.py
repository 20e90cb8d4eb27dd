"""The check that rollouts packed in one row are computed as each alone: what it lets pass, and what it catches."""

import pytest
import torch
from batches import open_settings
from conftest import leaks
from learner.backend import PeftBackend
from learner.errors import Refused
from learner.packing_check import check_packing

from models import make_model, write_gguf

pytestmark = pytest.mark.full


@pytest.fixture(params=["qwen2", "qwen3", "llama"])
def base(request, tmp_path):
    return write_gguf(make_model(request.param), tmp_path / "model.gguf")


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_every_backend_passes_the_check_and_its_gradients_stay(base, silent, precision):
    backend = PeftBackend(open_settings(base, precision=precision), silent)
    for number, parameter in enumerate(backend.trainable()):
        parameter.grad = torch.full_like(parameter, number)
    random = torch.get_rng_state()
    check_packing(backend)
    assert all(bool((parameter.grad == number).all()) for number, parameter in enumerate(backend.trainable()))
    assert torch.equal(torch.get_rng_state(), random)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda pack, states: states + 1e-2 * pack.ids.float().mean(), id="a mean over the whole row"),
        pytest.param(lambda pack, states: states * (1 + len(pack.ids) / 1000), id="the length of the row"),
        pytest.param(
            lambda pack, states: states * 1.0 if len(pack.ids) < 30 else states.detach() + 0 * states,
            id="a lost gradient",
        ),
        pytest.param(lambda pack, states: states * float("nan"), id="not a number"),
    ],
)
def test_what_comes_from_the_rest_of_the_row_is_caught(peft, change):
    with pytest.raises(Refused, match="does not keep packed rollouts apart"):
        check_packing(leaks(peft, change))


def test_what_a_pass_without_gradients_takes_from_the_rest_of_the_row_is_caught(peft):
    """As the probe, KL and mini-batches compute; libraries have other kernels for it."""

    def change(pack, states):
        return states if torch.is_grad_enabled() else states * (1 + len(pack.ids) / 1000)

    with pytest.raises(Refused, match="hidden states differ with gradients and without"):
        check_packing(leaks(peft, change))


def test_a_gradient_that_is_lost_in_packed_rows_is_caught_with_a_new_adapter_too(peft):
    """Of A, which is 0 as long as B is."""
    computed, positions = peft.computed, []
    peft.computed = lambda pack: positions.append(len(pack.ids)) or computed(pack)
    before = [parameter.detach().clone() for parameter in peft.trainable()]
    for name, parameter in peft.model.named_parameters():
        if "lora_A" in name:
            parameter.register_hook(lambda gradient: gradient * (positions[-1] < 30))
    with pytest.raises(Refused, match=r"gradients of \S+lora_A differ packed and alone"):
        check_packing(peft)
    assert all(torch.equal(one, was) for one, was in zip(peft.trainable(), before, strict=True))
