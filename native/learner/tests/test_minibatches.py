"""Several updates on one batch: epochs and mini-batches, each update against TRL's loss on a plain model."""

import copy
import functools
import itertools
import math
from types import SimpleNamespace

import pytest
import torch
from batches import (
    OBJECTIVES,
    VOCABULARY,
    open_settings,
    random_batch,
    sft_settings,
    step_settings,
    write_random_batch,
)
from learner import head, protocol
from learner.backend import PeftBackend
from learner.batch import read_batch
from learner.minibatches import deal
from learner.optimizer import Optimizer
from learner.packing import plan
from learner.request import AdamSettings
from learner.session import Session
from learner.sft import supervised
from learner.update import policy_update
from pairs import random_pair
from reference import Rows, read_rows
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from trl_loss import trl_loss

from models import make_model, write_gguf

GROUPS, SIZE = 5, 3
CONSTANT = 40
LEVELS = [(name, "token") for name in OBJECTIVES] + [("dapo", "sequence"), ("gspo", "sequence")]
"""Objectives, and whose importance weights they have."""
UPDATES = [(2, 1), (1, 3), (2, 2)]
"""Epochs and mini-batches."""
KL = [0.0, 0.1]
CASES = [
    pytest.param(*level, *updates, kl, marks=() if (i + j + k) % 2 == 0 else pytest.mark.full)
    for (i, level), (j, updates), (k, kl) in itertools.product(enumerate(LEVELS), enumerate(UPDATES), enumerate(KL))
]
"""Every pair of values is in half of them; the other half is slower tests."""


def chosen(rows, numbers):
    index = torch.tensor(numbers)
    return Rows(*(getattr(rows, name)[index] for name in ("ids", "exists", "sampled", "rollout", "advantages")))


def numbers_of(batch, trajectories):
    places = {trajectory.first_slot: number for number, trajectory in enumerate(batch.sequences)}
    return [places[trajectory.first_slot] for trajectory in trajectories]


def with_advantages(path, advantages):
    """The batch file with these advantages of its trajectories."""
    return rewritten(path, lambda tensors: tensors | {"advantages": torch.tensor(advantages)})


def without(path, left_out):
    """The batch file without some of its trajectories; its groups and rollouts are numbered anew."""

    def kept(tensors):
        stays = ~torch.tensor(left_out)
        tokens = stays.repeat_interleave(tensors["lengths"])
        each = {key: value[tokens if len(value) == len(tokens) else stays] for key, value in tensors.items()}
        return each | {key: each[key].unique(return_inverse=True)[1].int() for key in ("groups", "rollouts")}

    return rewritten(path, kept)


def rewritten(path, change):
    with safe_open(path, framework="pt") as file:
        about = file.metadata()
    save_file(change(load_file(path)), path, about)
    return path


class Watched(Optimizer):
    """Calls `seen` with the gradient of each update before it is clipped."""

    def __init__(self, parameters, seen):
        super().__init__(parameters, AdamSettings())
        self._seen = seen

    def clip(self, max_norm):
        self._seen(torch.cat([parameter.grad.flatten() for parameter in self.parameters]))
        return super().clip(max_norm)


@pytest.mark.parametrize(("name", "level", "epochs", "minibatches", "kl"), CASES)
def test_each_update_has_the_gradient_of_trls_loss(tmp_path, silent, monkeypatch, name, level, epochs, minibatches, kl):
    # Chunks of 16 tokens, so that rows and trajectories are cut by them.
    monkeypatch.setattr(head, "score", functools.partial(head.score, chunk_bytes=1))
    backend, reference = random_pair(tmp_path, silent)
    path = write_random_batch(tmp_path / "batch.safetensors", groups=GROUPS, size=SIZE)
    batch, rows = read_batch(path, VOCABULARY), read_rows(path)
    importance = {"mode": f"{level}-truncate", "low": 0.1, "high": 3.0}
    with torch.no_grad():
        old = reference.logprobs(rows, 1.0)
        with reference.model.disable_adapter():
            base = reference.logprobs(rows, 1.0)
    # Few ratios keep the bounds of the paper when the updates are this large: wider ones, so that both sides occur.
    objective = OBJECTIVES[name] | ({"clipLow": 0.05, "clipHigh": 0.05} if name == "gspo" else {})
    request = step_settings(
        path,
        tmp_path,
        objective=objective,
        importance=importance,
        klCoefficient=kl,
        epochs=epochs,
        minibatches=minibatches,
        seed=7,
        maxCompletionTokens=CONSTANT,
        # Several rows in each mini-batch.
        microBatchTokens=60,
    )
    hands = [numbers_of(batch, hand) for hand in deal(batch, minibatches, 7)]
    losses, drifts = [], []

    def compare(gradient):
        hand = hands[len(losses) % len(hands)]
        part = chosen(rows, hand)
        with torch.no_grad():
            # The policy of now.
            for ours, theirs in zip(backend.trainable(), reference.parameters, strict=True):
                theirs.copy_(ours)
        t = SimpleNamespace(
            new=reference.logprobs(part, 1.0),
            old=old[hand],
            base=base[hand],
            rollout=part.rollout[:, 1:],
            mask=part.sampled[:, 1:].int(),
            advantages=part.advantages[:, 0],
        )
        value = trl_loss(t, objective, kl, CONSTANT, importance)
        wanted = torch.cat([part.flatten() for part in torch.autograd.grad(value, reference.parameters)])
        assert (gradient - wanted).norm() <= 3e-5 * wanted.norm()
        losses.append(value.item())
        drifts.append((t.new - t.old)[t.mask.bool()].abs().max().item())

    metrics = policy_update(backend, Watched(backend.trainable(), compare), batch, request, silent)
    assert metrics["applied"] and metrics["updates"] == len(losses) == epochs * minibatches
    assert metrics["loss"] == pytest.approx(sum(losses) / len(losses), abs=1e-5)
    # π_old is the policy before the first update, for every mini-batch.
    assert drifts[0] < 1e-5 and min(drifts[1:]) > 1e-2
    assert sum(metrics["clip"].values()) > 0 or name == "cispo"


@pytest.mark.parametrize("kl", [0.0, 0.1])
@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_a_step_with_groups_without_spread_has_the_gradient_of_trls_loss(tmp_path, silent, name, kl):
    """TRL has all groups in its batch. Here those without spread are in it only for their KL term."""
    backend, reference = random_pair(tmp_path, silent)
    path = write_random_batch(tmp_path / "all.safetensors", groups=GROUPS, size=SIZE)
    flat = [group in (1, 3) for group in range(GROUPS) for _ in range(SIZE)]
    rows = read_rows(with_advantages(path, [0.0 if zero else 1.0 - number % SIZE for number, zero in enumerate(flat)]))
    batch = read_batch(path if kl else without(path, flat), VOCABULARY)
    assert batch.groups == (GROUPS if kl else GROUPS - 2)
    with torch.no_grad():
        old = reference.logprobs(rows, 1.0)
        with reference.model.disable_adapter():
            base = reference.logprobs(rows, 1.0)
    request = step_settings(
        path,
        tmp_path,
        objective=OBJECTIVES[name],
        klCoefficient=kl,
        maxCompletionTokens=CONSTANT,
        rollouts=GROUPS * SIZE,
        sampledTokens=int(rows.sampled.sum()),
    )
    seen = []
    metrics = policy_update(backend, Watched(backend.trainable(), seen.append), batch, request, silent)
    t = SimpleNamespace(
        new=reference.logprobs(rows, 1.0),
        old=old,
        base=base,
        rollout=rows.rollout[:, 1:],
        mask=rows.sampled[:, 1:].int(),
        advantages=rows.advantages[:, 0],
    )
    value = trl_loss(t, OBJECTIVES[name], kl, CONSTANT)
    wanted = torch.cat([part.flatten() for part in torch.autograd.grad(value, reference.parameters)])
    assert (seen[0] - wanted).norm() <= 3e-5 * wanted.norm()
    assert metrics["loss"] == pytest.approx(value.item(), abs=1e-6)


def test_a_step_without_a_group_that_teaches_makes_the_update_of_its_kl_term(tmp_path, silent):
    backend, reference = random_pair(tmp_path, silent)
    path = write_random_batch(tmp_path / "batch.safetensors", advantage=0.0)
    rows, seen = read_rows(path), []
    request = step_settings(path, tmp_path, klCoefficient=0.1)
    policy_update(backend, Watched(backend.trainable(), seen.append), read_batch(path, VOCABULARY), request, silent)
    sampled = rows.sampled[:, 1:]
    with torch.no_grad(), reference.model.disable_adapter():
        base = reference.logprobs(rows, 1.0)
    ahead = base - reference.logprobs(rows, 1.0)
    pull = 0.1 * (ahead.exp() - ahead - 1)[sampled].mean()
    wanted = torch.cat([part.flatten() for part in torch.autograd.grad(pull, reference.parameters)])
    assert wanted.norm() > 0 and (seen[0] - wanted).norm() <= 3e-5 * wanted.norm()


@pytest.mark.parametrize("lora", [True, False])
def test_each_update_of_imitation_has_the_gradient_of_transformers_own_loss(tmp_path, silent, monkeypatch, lora):
    """In torch's random order, each bounded, with rates that rise over a third of the updates, then fall towards 0."""
    if lora:
        backend, reference = random_pair(tmp_path, silent)
        model, parameters = reference.model, reference.parameters
    else:
        model = make_model("qwen2")
        parameters = list(model.parameters())
        backend = PeftBackend(open_settings(write_gguf(model, tmp_path / "model.gguf"), lora=None), silent)
    path = write_random_batch(tmp_path / "batch.safetensors", groups=2, size=SIZE, advantage=1.0)
    rows = read_rows(path)
    labels = rows.ids.masked_fill(~rows.sampled, -100)
    torch.manual_seed(7)
    hands = [hand for _ in range(3) for hand in torch.randperm(2 * SIZE).split(4)]
    losses, rates = [], []

    def compare(gradient):
        with torch.no_grad():
            for ours, theirs in zip(backend.trainable(), parameters, strict=True):
                theirs.copy_(ours)
        hand = hands[len(losses)]
        mask = rows.exists[hand].long()
        loss = model(input_ids=rows.ids[hand], attention_mask=mask, labels=labels[hand], use_cache=False).loss
        wanted = torch.cat([part.flatten() for part in torch.autograd.grad(loss, parameters)])
        assert (gradient - wanted).norm() <= 3e-5 * wanted.norm()
        losses.append(loss.item())

    optimizer = Watched(backend.trainable(), compare)
    update = optimizer.update

    def watched(rate):
        rates.append(rate)
        assert torch.cat([one.grad.flatten() for one in optimizer.parameters]).norm() == pytest.approx(0.1, rel=1e-4)
        update(rate)

    monkeypatch.setattr(optimizer, "update", watched)
    more = {"epochs": 3, "updateTrajectories": 4, "warmup": 1 / 3, "maxGradNorm": 0.1, "microBatchTokens": 60}
    torch.manual_seed(7)
    metrics = supervised(backend, optimizer, read_batch(path, VOCABULARY), sft_settings(path, tmp_path, **more), silent)
    assert metrics["updates"] == len(losses) == 6
    assert rates == pytest.approx([1e-2 * share for share in (1 / 2, 1, 1, 3 / 4, 1 / 2, 1 / 4)])
    assert metrics["loss"] == pytest.approx({"first": losses[0], "last": losses[-1]}, rel=1e-5)


def test_whole_groups_are_dealt_by_the_seed(tmp_path):
    batch = random_batch(tmp_path, groups=7, size=2)

    def dealt(seed):
        return [sorted({trajectory.group for trajectory in hand}) for hand in deal(batch, 3, seed)]

    assert sorted(group for hand in dealt(1) for group in hand) == list(range(7))
    assert sorted(map(len, dealt(1))) == [2, 2, 3]
    assert dealt(1) == dealt(1) != dealt(2)
    assert all(len(hand) == 2 * len({t.group for t in hand}) for hand in deal(batch, 3, 1))
    # One group cannot be in two.
    assert [len(hand) for hand in deal(batch, 50, 1)] == [2] * 7


@pytest.fixture
def session(tmp_path, silent):
    return Session(open_settings(write_gguf(make_model("qwen2"), tmp_path / "model.gguf")), silent)


@pytest.mark.parametrize("minibatches", [1, 3])
def test_metrics_before_the_updates_are_those_of_the_policy_before_the_first(session, tmp_path, silent, minibatches):
    batch = write_random_batch(tmp_path / "batch.safetensors")
    first = session.step(step_settings(batch, tmp_path / "1", learningRate=0.0, klCoefficient=0.1), silent)
    many = step_settings(batch, tmp_path / "2", epochs=2, minibatches=minibatches, learningRate=0.05, klCoefficient=0.1)
    again = session.step(many, silent)
    assert again["updates"] == 2 * minibatches
    for name in ("mismatch", "mismatchKl", "importance"):
        assert again[name] == pytest.approx(first[name], rel=1e-5)
    for name in ("entropy", "klBase"):
        assert again[name] == pytest.approx(first[name], rel=1e-5, abs=1e-9)


def test_a_later_minibatch_that_is_not_finite_takes_the_earlier_ones_back(session, tmp_path, silent):
    session.step(step_settings(write_random_batch(tmp_path / "good"), tmp_path / "0001"), silent)
    before = copy.deepcopy(session._optimizer.snapshot())
    # The first mini-batch is applied, and makes weights that nothing can be computed with.
    batch = write_random_batch(tmp_path / "batch")
    metrics = session.step(step_settings(batch, tmp_path / "0002", minibatches=3, learningRate=1e30), silent)
    assert metrics["skipped"] == "loss" and metrics["updates"] == 0 and metrics["loss"] is None
    assert not (tmp_path / "0002").exists()
    after = session._optimizer.snapshot()
    assert all(torch.equal(*pair) for pair in zip(before["weights"], after["weights"], strict=True))
    assert after["state"]["updates"] == 1


def test_progress_counts_every_row_once(session, tmp_path, monkeypatch):
    monkeypatch.setattr(protocol, "BEAT_SECONDS", math.inf)
    seen = []
    batch = write_random_batch(tmp_path / "batch.safetensors")
    settings = step_settings(batch, tmp_path / "0001", epochs=2, minibatches=3, klCoefficient=0.1, microBatchTokens=50)
    metrics = session.step(settings, lambda phase, done, total: seen.append((done, total)) if phase == "update" else 0)
    done, totals = zip(*seen, strict=True)
    assert list(done) == list(range(totals[0] + 1)) and set(totals) == {len(seen) - 1}
    # Two epochs, the base model, and what the second and third mini-batch need of the policy before.
    assert len(seen) > 3 * metrics["microBatches"]


@pytest.mark.parametrize("checkpointing", [False, True])
def test_a_row_gives_a_sign_with_each_layer_of_both_passes(peft, tmp_path, checkpointing):
    (pack,) = plan(random_batch(tmp_path, groups=1, size=2), 10**6)
    layers = len(peft._causal.model.layers)
    peft.checkpointing(checkpointing)
    signs = []
    peft.at_work = lambda: signs.append(None)
    hidden = peft.hidden(pack)
    assert len(signs) == layers
    peft.backward(hidden, torch.ones_like(hidden))
    # Activations that are not kept are computed twice.
    assert len(signs) == layers * (3 if checkpointing else 2)


def test_a_sign_tells_progress_again(session, tmp_path, monkeypatch):
    """Hone ends a learner that makes none, and a row takes longer than it waits where a CPU is slow or busy."""
    monkeypatch.setattr(protocol, "BEAT_SECONDS", 0)
    seen = []
    batch = write_random_batch(tmp_path / "batch.safetensors")
    session.step(step_settings(batch, tmp_path / "0001"), lambda *told: seen.append(told))
    assert seen[:2] == [("update", 0, 1)] * 2


@pytest.mark.parametrize(("name", "counted"), [("dr-grpo", "rollouts"), ("dapo", "sampledTokens")])
def test_what_was_played_is_shared_among_the_minibatches(session, tmp_path, silent, name, counted):
    batch = write_random_batch(tmp_path / "batch.safetensors")
    more = {"objective": OBJECTIVES[name], "maxCompletionTokens": CONSTANT, "minibatches": 3, "learningRate": 0.0}
    own = session.step(step_settings(batch, tmp_path / "1", **more), silent)
    here = own["trajectories"] if counted == "rollouts" else own["tokens"]["sampled"]
    twice = session.step(step_settings(batch, tmp_path / "2", **{counted: 2 * here}, **more), silent)
    assert twice["loss"] == pytest.approx(own["loss"] / 2, rel=1e-5)
    assert math.isfinite(own["gradNorm"]) and twice["gradNorm"] == pytest.approx(own["gradNorm"] / 2, rel=1e-5)
