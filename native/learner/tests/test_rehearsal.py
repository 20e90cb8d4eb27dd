"""The small step computed plainly: silent where nothing is wrong, and what it sees."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from batches import (
    OBJECTIVES,
    VOCABULARY,
    open_settings,
    random_batch,
    restricted,
    step_settings,
    tree_batch,
    write_batch,
)
from learner import head, loss, passes, rehearsal
from learner.backend import PeftBackend
from learner.batch import Batch, read_batch
from learner.errors import Refused
from learner.optimizer import Optimizer
from learner.request import AdamSettings

from models import CONFIGS, make_model, write_gguf

MODES = ["off", "token-truncate", "token-mask", "sequence-truncate", "sequence-mask"]


@pytest.fixture
def rehearse(peft, tmp_path, silent):
    optimizer = Optimizer(peft.trainable(), AdamSettings())

    def with_settings(batch: Batch | None = None, number: int = 0, backend=peft, optimizer=optimizer, **settings):
        request = step_settings("batch", "into", **{"maxCompletionTokens": 40, "klCoefficient": 0.1} | settings)
        rehearsal.rehearse(backend, optimizer, batch or random_batch(tmp_path, temperature=0.8), request, number)

    return with_settings


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("mode", MODES)
def test_loss_and_gradient_are_the_plain_ones(rehearse, name, mode):
    importance = {"mode": mode, "low": 0.4 if "mask" in mode else 0.0, "high": 2.0}
    rehearse(objective=OBJECTIVES[name], importance=importance)


@pytest.mark.parametrize("make", [tree_batch, lambda path: restricted(random_batch(path))])
def test_of_trees_and_of_tokens_under_a_grammar_too(rehearse, tmp_path, make):
    batch = make(tmp_path)
    for number in range(0, len(batch.sequences), 4):
        rehearse(batch, number)


@pytest.mark.parametrize("precision", ["f32", *(pytest.param(one, marks=pytest.mark.full) for one in ("f16", "bf16"))])
@pytest.mark.parametrize("architecture", [name for name in CONFIGS if name != "phi3"])
def test_of_every_architecture_and_precision(rehearse, tmp_path, silent, architecture, precision):
    model = write_gguf(make_model(architecture), tmp_path / f"{architecture}.gguf")
    backend = PeftBackend(open_settings(model, precision=precision), silent)
    rehearse(backend=backend, optimizer=Optimizer(backend.trainable(), AdamSettings()))


def test_where_a_prompt_is_longer_than_all_of_the_first_rollout(rehearse, tmp_path):
    generator = torch.Generator().manual_seed(2)

    def rollout(group, prompt, completion):
        ids = torch.randint(VOCABULARY, (prompt + completion,), generator=generator)
        flags = torch.tensor([0] * prompt + [1] * completion)
        return group, 0, ids, flags, -torch.rand(len(ids), generator=generator) * flags, 1.0 - group

    sizes = (12, 3), (60, 8), (12, 4), (40, 2)
    write_batch(tmp_path / "batch", [rollout(group, *size) for group, size in enumerate(sizes)])
    batch = read_batch(tmp_path / "batch", VOCABULARY)
    for number in range(2):
        small = rehearsal.small_batch(batch, number)
        assert [len(one.ids) for one in small.sequences] == [len(one.sampled) for one in small.sequences]
        rehearse(batch, number)


def test_gradients_next_to_nothing_are_the_plain_ones(rehearse):
    rehearse(objective=OBJECTIVES["dr-grpo"], klCoefficient=0, maxCompletionTokens=10**7)


def test_where_layers_are_computed_again_in_the_backward_pass(rehearse, peft):
    rehearse(gradientCheckpointing=True)
    peft.checkpointing(True)
    rehearse()


def test_leaves_weights_gradients_and_random_state_as_they_are(rehearse, peft):
    before = [one.detach().clone() for one in peft.trainable()]
    random = torch.get_rng_state()
    rehearse()
    assert all(torch.equal(one, then) for one, then in zip(peft.trainable(), before, strict=True))
    assert all(one.grad is None for one in peft.trainable())
    assert torch.equal(torch.get_rng_state(), random)


def test_products_in_16_bits_are_so_again_afterwards(rehearse, silent, qwen2):
    backend = PeftBackend(open_settings(qwen2, precision="bf16"), silent)
    products = [module.base_layer for module in backend.model.modules() if hasattr(module, "base_layer")]
    x = torch.randn(3, products[0].in_features, dtype=torch.bfloat16)
    before = products[0](x)
    rehearse(backend=backend, optimizer=Optimizer(backend.trainable(), AdamSettings()))
    assert backend.precision == "bf16"
    assert before.dtype == torch.bfloat16 and torch.equal(products[0](x), before)


def without_temperature(patch):
    score = head.score
    patch.setattr(head, "score", lambda h, w, s, t, temperature, *more, **named: score(h, w, s, t, 1.0, *more, **named))


def of_loss(name, change):
    return lambda patch: patch.setattr(loss, name, change(getattr(loss, name)))


def half_a_layer(patch):
    backward = PeftBackend.backward

    def halved(self, hidden, gradient):
        parameter = self.trainable()[3]
        before = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
        backward(self, hidden, gradient)
        parameter.grad.sub_((parameter.grad - before) / 2)

    patch.setattr(PeftBackend, "backward", halved)


def of_packs(change):
    def put(patch):
        minibatches = rehearsal.minibatches_of

        def changed(*given):
            return [
                replace(one, packs=[change(pack) for pack in one.packs], own=[change(pack) for pack in one.own])
                for one in minibatches(*given)
            ]

        patch.setattr(rehearsal, "minibatches_of", changed)

    return put


def siblings_see_each_other(pack):
    whole = len(pack.ids)
    return replace(
        pack,
        ends=torch.full_like(pack.ends, whole),
        segments=tuple(
            replace(one, before=((0, sum(other.length for other in pack.segments[:number])),) if number else ())
            for number, one in enumerate(pack.segments)
        ),
    )


def positions_go_on_after_a_fork(pack):
    return replace(pack, positions=torch.arange(len(pack.ids)))


def divided_by_rows(patch):
    accumulate = passes.Passes.accumulate
    patch.setattr(
        passes.Passes, "accumulate", lambda self, pack, first, scale: accumulate(self, pack, first, scale / 2)
    )


def each_bounded_by_itself(patch):
    def clip(self, most):
        return max(float(torch.nn.utils.clip_grad_norm_([one], most)) for one in self.parameters)

    patch.setattr(Optimizer, "clip", clip)


FAULTS = {
    "each parameter's gradient bounded by itself": each_bounded_by_itself,
    "the temperature is left out": without_temperature,
    "half of a layer's gradient": half_a_layer,
    "siblings that see each other": of_packs(siblings_see_each_other),
    "positions that go on after a fork": of_packs(positions_go_on_after_a_fork),
    "a gradient divided by the number of rows": divided_by_rows,
    "twice the normaliser": of_loss("token_scale", lambda scale: lambda *given: 2 * scale(*given)),
    "KL to the current policy": of_loss("k3", lambda k3: lambda new, base: k3(new, new.detach())),
    "KL's sign": of_loss("k3", lambda k3: lambda *given: -k3(*given)),
    "no importance weights": of_loss("weights", lambda _: lambda old, *more: torch.ones_like(old)),
    "the policy before the step made anew": of_loss(
        "_log_ratio", lambda _: lambda tokens, objective: tokens.new - tokens.new.detach()
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_sees(rehearse, monkeypatch, fault):
    rehearse()
    FAULTS[fault](monkeypatch)
    with pytest.raises(Refused, match="a small step, computed as updates are and plainly, differs"):
        rehearse()


def test_a_card_and_unsloth_have_none(monkeypatch):
    def refuse(*_):
        raise Refused("it differs")

    monkeypatch.setattr(rehearsal, "rehearse", refuse)
    for name, device, due in (("peft", "cuda", False), ("unsloth", "cpu", False), ("peft", "cpu", True)):
        backend = SimpleNamespace(name=name, precision="f32", device=torch.device(device))
        with pytest.raises(Refused, match="it differs") if due else nullcontext():
            rehearsal.Rehearsals().before(backend, None, None, None)


def test_sees_half_a_layers_gradient_in_16_bits_too(rehearse, silent, qwen2, monkeypatch):
    half_a_layer(monkeypatch)
    backend = PeftBackend(open_settings(qwen2, precision="f16"), silent)
    with pytest.raises(Refused, match="a small step, computed as updates are and plainly, differs"):
        rehearse(backend=backend, optimizer=Optimizer(backend.trainable(), AdamSettings()))
