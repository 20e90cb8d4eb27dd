"""Packing and chunking are exact: the same log-probabilities and gradients as each trajectory computed alone."""

import pytest
import torch
from batches import OBJECTIVES, open_settings, random_batch
from learner import head, loss
from learner.backend import PeftBackend
from learner.importance import Importance
from learner.objective import read_objective
from learner.packing import plan

from models import make_model, write_gguf

SETTINGS = loss.LossSettings(
    read_objective(OBJECTIVES["grpo"], list(loss.SURROGATES)), Importance("token-truncate", 0.0, 2.0), 0.0
)


def token_losses(batch, new, old, slots):
    tokens = loss.Tokens(new, old, batch.rollout[slots], batch.advantages[slots], batch.owner[slots])
    return loss.policy_loss(tokens, SETTINGS)


def plain(backend, batch, temperature):
    """The textbook way: every trajectory alone, all its logits, autograd through everything. S log-probabilities."""
    model = backend.model
    model.config._attn_implementation = "eager"
    parts = []
    for trajectory in batch.trajectories:
        logits = model(input_ids=trajectory.ids[None], use_cache=False).logits[0, :-1].float() / temperature
        logprobs = logits.log_softmax(-1).gather(1, trajectory.ids[1:, None])[:, 0]
        parts.append(logprobs[trajectory.sampled[1:]])
    model.config._attn_implementation = "hone_packed"
    return torch.cat(parts)


def gradients(backend):
    return {
        name: parameter.grad.clone()
        for name, parameter in backend.model.named_parameters()
        if parameter.grad is not None
    }


@pytest.fixture(params=["qwen2", "qwen3", "llama"])
def backend(request, tmp_path, silent):
    file = write_gguf(make_model(request.param), tmp_path / "model.gguf")
    torch.manual_seed(0)
    backend = PeftBackend(open_settings(file), silent)
    with torch.no_grad():
        for parameter in backend.trainable():
            parameter.normal_(std=0.1)
    return backend


@pytest.mark.parametrize("budget", [40, 100, 4096])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_packed_rows_give_the_loss_and_gradients_of_the_plain_path(backend, tmp_path, budget, temperature):
    batch = random_batch(tmp_path, temperature=temperature)
    new = plain(backend, batch, temperature)
    expected = token_losses(batch, new, new.detach(), slice(None)).sum() / len(new)
    expected.backward()
    wanted = gradients(backend)
    backend.model.zero_grad()

    logprobs = torch.empty(len(new))
    packs = plan(batch, budget)
    for pack in packs:
        hidden = backend.hidden(pack)

        def slope(scored, part, slots=pack.slots):
            with torch.enable_grad():
                leaf = scored.clone().requires_grad_(True)
                value = token_losses(batch, leaf, scored, slots[part])
                (derivative,) = torch.autograd.grad(value.sum() / len(new), leaf)
            return derivative

        scores = head.score(
            hidden.detach(), backend.output_weight(), pack.targets, temperature, slope, chunk_bytes=96 * 4 * 16
        )
        hidden.backward(scores.gradient)
        logprobs[pack.slots] = scores.logprobs

    assert torch.allclose(logprobs, new, atol=1e-5)
    got = gradients(backend)
    assert got.keys() == wanted.keys()
    for name in wanted:
        assert torch.allclose(got[name], wanted[name], atol=1e-5, rtol=1e-4), name
    assert max(wanted[name].abs().max() for name in wanted) > 1e-3


def test_a_shared_prompt_is_computed_once_and_rows_keep_the_budget(tmp_path):
    batch = random_batch(tmp_path, groups=5, size=4, prompt=(20, 20), own=(5, 9))
    whole = plan(batch, 10_000)
    assert len(whole) == 1
    assert len(whole[0].ids) == batch.tokens - 5 * 3 * 20
    narrow = plan(batch, 50)
    assert all(len(pack.ids) <= 50 for pack in narrow)
    slots = torch.cat([pack.slots for pack in narrow]).sort().values
    assert torch.equal(slots, torch.arange(batch.sampled_tokens))


def test_a_trajectory_longer_than_the_budget_gets_a_row_of_its_own(tmp_path):
    batch = random_batch(tmp_path, groups=1, size=2, prompt=(20, 20), own=(30, 30))
    assert [len(pack.ids) for pack in plan(batch, 10)] == [50, 50]


def test_entropy_is_that_of_the_whole_distribution():
    torch.manual_seed(0)
    hidden, weight = torch.randn(37, 8), torch.randn(50, 8)
    scores = head.score(hidden, weight, torch.randint(50, (37,)), 1.3, chunk_bytes=50 * 4 * 16)
    expected = torch.distributions.Categorical(logits=hidden @ weight.T / 1.3).entropy()
    assert torch.allclose(scores.entropy, expected, atol=1e-5)


def test_the_output_layer_gets_its_own_gradient_when_it_is_trained():
    torch.manual_seed(0)
    hidden, targets = torch.randn(37, 8), torch.randint(50, (37,))
    weight = torch.randn(50, 8, requires_grad=True)
    hidden.requires_grad_(True)
    (-(hidden @ weight.T).log_softmax(-1).gather(1, targets[:, None]).sum()).backward()
    wanted, weight.grad = weight.grad, None
    scores = head.score(
        hidden.detach(), weight, targets, 1.0, lambda logprobs, _: -torch.ones_like(logprobs), 50 * 4 * 16
    )
    assert torch.allclose(weight.grad, wanted, atol=1e-5)
    assert torch.allclose(scores.gradient, hidden.grad, atol=1e-5)
