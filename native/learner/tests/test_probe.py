"""The sequence that tells the new policy from the one before."""

import functools
import json

import pytest
import torch
from batches import open_settings, random_batch, step_settings, write_random_batch
from learner import head
from learner.batch import read_batch
from learner.optimizer import Optimizer
from learner.packing import plan_trajectories
from learner.probe import choose
from learner.request import AdamSettings
from learner.session import Session
from learner.update import policy_update
from pairs import random_pair

from models import make_model, write_gguf


@pytest.fixture
def base(tmp_path):
    return write_gguf(make_model("qwen2"), tmp_path / "model.gguf")


@torch.no_grad()
def scored(session, trajectory):
    """What the session's policy says of a trajectory now."""
    (pack,) = plan_trajectories([trajectory], 10_000)
    backend = session._backend
    return head.score(backend.hidden(pack), backend.output_weight(), pack.sources, pack.targets, 1.0).logprobs


def probe_of(folder):
    return json.loads((folder / "probe.json").read_text())


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_it_has_the_log_probabilities_before_and_after_the_update_at_temperature_1(base, tmp_path, silent, temperature):
    file = write_random_batch(tmp_path / "batch.safetensors", temperature=temperature)
    session = Session(open_settings(base), silent)
    session.step(step_settings(file, tmp_path / "0001"), silent)
    chosen = choose(read_batch(file, 96))
    before = scored(session, chosen)
    metrics = session.step(step_settings(file, tmp_path / "0002"), silent)
    assert "probe" not in metrics
    probe = probe_of(tmp_path / "0002")
    assert probe["ids"] == chosen.ids.tolist()
    assert [bool(chosen.sampled[place]) for place in probe["scored"]] == [True] * int(chosen.sampled.sum())
    assert torch.allclose(torch.tensor(probe["before"]), before, atol=1e-5)
    assert torch.allclose(torch.tensor(probe["logprobs"]), scored(session, chosen), atol=1e-5)
    assert not torch.allclose(torch.tensor(probe["before"]), torch.tensor(probe["logprobs"]), atol=1e-3)
    # The one before is the one that the checkpoint before ended with.
    assert torch.allclose(
        torch.tensor(probe["before"]), torch.tensor(probe_of(tmp_path / "0001")["logprobs"]), atol=1e-5
    )


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_divergences_are_those_of_whole_distributions(tmp_path, silent, monkeypatch, temperature):
    """Against transformers' logits, all at once; in the learner in chunks of four positions."""
    monkeypatch.setattr(head, "divergences", functools.partial(head.divergences, chunk_bytes=1))
    file = write_random_batch(tmp_path / "batch.safetensors", temperature=temperature)
    backend, reference = random_pair(tmp_path, silent)
    chosen = choose(read_batch(file, 96))
    places = chosen.sampled.nonzero().flatten() - 1

    @torch.no_grad()
    def distributions():
        logits = reference.model(input_ids=chosen.ids[None], use_cache=False).logits[0, places]
        return torch.log_softmax(logits / temperature, 1)

    def divergence(p, q):
        return (p.exp() * (p - q)).sum(1).mean().item()

    before = distributions()
    with reference.model.disable_adapter():
        start = distributions()
    request = step_settings(file, tmp_path, learningRate=3e-2)
    metrics = policy_update(
        backend, Optimizer(backend.trainable(), AdamSettings()), read_batch(file, 96), request, silent
    )
    with torch.no_grad():
        for ours, theirs in zip(backend.trainable(), reference.parameters, strict=True):
            theirs.copy_(ours)
    found = metrics["probeKl"]
    assert found["n"] == len(places)
    assert found["base"] == pytest.approx(divergence(before, start), rel=1e-4) and found["base"] > 1e-3
    assert found["update"] == pytest.approx(divergence(before, distributions()), rel=1e-4) and found["update"] > 1e-3


def test_at_learning_rate_0_both_are_the_same(base, tmp_path, silent):
    batch = write_random_batch(tmp_path / "batch.safetensors")
    session = Session(open_settings(base), silent)
    metrics = session.step(step_settings(batch, tmp_path / "0001", learningRate=0.0), silent)
    # B is zero at first: a new adapter is the base model.
    assert metrics["probeKl"]["base"] == pytest.approx(0, abs=1e-6) and metrics["probeKl"]["update"] == 0
    probe = probe_of(tmp_path / "0001")
    assert probe["before"] == probe["logprobs"]


def test_an_update_that_is_not_applied_leaves_none(base, tmp_path, silent):
    session = Session(open_settings(base), silent)
    batch = write_random_batch(tmp_path / "batch.safetensors", advantage=float("inf"))
    assert not session.step(step_settings(batch, tmp_path / "0001"), silent)["applied"]
    assert not (tmp_path / "0001").exists()


def test_the_shortest_trajectory_with_enough_tokens_is_taken(tmp_path):
    batch = random_batch(tmp_path, own=(10, 90), groups=6)
    chosen = choose(batch)
    enough = [len(one.ids) for one in batch.sequences if int(one.sampled.sum()) >= 32]
    assert len(chosen.ids) == min(enough)
    short = random_batch(tmp_path, own=(2, 20))
    assert int(choose(short).sampled.sum()) == max(int(one.sampled.sum()) for one in short.sequences)


def test_a_long_one_is_cut_after_its_first_tokens(tmp_path):
    assert len(choose(random_batch(tmp_path, own=(900, 950))).ids) == 512
    long = choose(random_batch(tmp_path, prompt=(700, 700), own=(300, 310)))
    assert len(long.ids) == 828 and long.sampled.any()
