"""The losses, against TRL's own on the same tensors and against their definitions."""

import math
from types import SimpleNamespace

import pytest
import torch
from batches import OBJECTIVES
from learner import loss
from learner.importance import importance_metrics, weights
from learner.objective import Importance, LossSettings, Objective
from learner.request import read
from torch.distributions import Categorical, kl_divergence
from trl_loss import importance_ratio, trl_loss

TRUNCATED = Importance("token-truncate", 0.0, 2.0)


def settings(name="dapo", kl=0.0, importance=TRUNCATED, **changes):
    record = OBJECTIVES[name] | changes
    return LossSettings(read(Objective, record), importance, kl)


def tensors(batch=6, length=11, seed=0, drift=0.3):
    """Padded, as TRL takes them: [B, T] with a mask, tool tokens in the middle masked out too. `drift` is how far the
    updates before this one have moved the policy."""
    generator = torch.Generator().manual_seed(seed)
    new = -torch.rand(batch, length, generator=generator) * 3
    old = new + torch.randn(batch, length, generator=generator) * drift
    rollout = old + torch.randn(batch, length, generator=generator) * 0.6
    base = new + torch.randn(batch, length, generator=generator) * 0.3
    mask = (torch.rand(batch, length, generator=generator) < 0.7).int()
    mask[:, 0] = 1
    advantages = torch.randn(batch, generator=generator)
    return SimpleNamespace(new=new, old=old, rollout=rollout, base=base, mask=mask, advantages=advantages)


def tokens_of(t):
    picked = t.mask.bool()
    rows = torch.arange(len(t.mask))[:, None].expand_as(t.mask)[picked]
    return loss.Tokens(t.new[picked], t.old[picked], t.rollout[picked], t.advantages[rows], rows, t.base[picked])


def played(t):
    return loss.Played(len(t.advantages), int(t.mask.sum()))


def ours(t, settings, constant=None):
    tokens = tokens_of(t)
    scale = loss.token_scale(settings.objective, tokens.owner, played(t), constant)
    return (loss.policy_loss(tokens, settings) * scale).sum()


def both(t, mine, constant=None, importance=None):
    """Losses and gradients, ours and TRL's."""
    record = OBJECTIVES[mine.objective.name] | {
        "clipLow": mine.objective.clip_low,
        "clipHigh": mine.objective.clip_high,
    }
    t.new.requires_grad_(True)
    values = [ours(t, mine, constant), trl_loss(t, record, mine.kl_coefficient, constant, importance)]
    return values, [torch.autograd.grad(value, t.new)[0] for value in values]


def assert_equal(values, gradients):
    assert values[0].item() == pytest.approx(values[1].item(), abs=1e-5)
    assert torch.allclose(*gradients, rtol=1e-5, atol=1e-6)
    assert gradients[0].abs().max() > 1e-4


@pytest.mark.parametrize("beta", [0.0, 0.04])
@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_loss_and_gradient_equal_trl_after_the_first_update(name, beta):
    for seed in range(5):
        t = tensors(seed=seed)
        assert_equal(*both(t, settings(name, beta), constant=64))


def test_gspo_with_bounds_that_some_trajectories_keep_and_some_leave_equals_trl():
    """Mean ratios of a trajectory are near 1: the paper's bounds, and drifts about as large."""
    clipped = []
    for seed in range(5):
        t = tensors(seed=seed, drift=1e-3)
        mine = settings("gspo")
        below, above = loss.bounded(tokens_of(t), mine.objective)
        clipped.append((below | above).double().mean().item())
        assert_equal(*both(t, mine))
    assert 0 < sum(clipped) / 5 < 1


def test_cispo_bounds_weights_from_above_alone_and_equals_trl_there():
    t = tensors(drift=1.0)
    mine = settings("cispo", clipHigh=0.5)
    assert_equal(*both(t, mine))
    tokens = tokens_of(t)
    below, acted_on = loss.bounded(tokens, mine.objective)
    assert not below.any()
    assert torch.equal(acted_on, (tokens.new - tokens.old).exp() > 1.5) and 0 < acted_on.double().mean() < 1
    # A token whose weight is bounded keeps a gradient, unlike with a clipped ratio.
    leaf = tokens.new.detach().clone().requires_grad_(True)
    moved = loss.Tokens(leaf, tokens.old, tokens.rollout, tokens.advantages, tokens.owner)
    (gradient,) = torch.autograd.grad(loss.policy_loss(moved, mine).sum(), leaf)
    assert (gradient[acted_on] != 0).all()


MODES = [
    ("token-truncate", None, 1.5),
    ("token-truncate", 0.8, 1.5),
    ("token-mask", None, 1.5),
    ("token-mask", 0.7, 1.5),
    ("sequence-truncate", 0.5, 2.0),
    ("sequence-mask", 0.3, 3.0),
    ("sequence-mask", None, 0.6),
]


@pytest.mark.parametrize("name", list(OBJECTIVES))
@pytest.mark.parametrize(("mode", "low", "high"), MODES)
def test_importance_sampling_modes_equal_trl(name, mode, low, high):
    importance = Importance(mode, low or 0.0, high)
    shares = []
    for seed in range(4):
        t = tensors(seed=seed)
        mine = settings(name, 0.04, importance)
        assert_equal(*both(t, mine, constant=64, importance={"mode": mode, "low": low, "high": high}))
        picked = t.mask.bool()
        ratio = importance_ratio(t.old, t.rollout, t.mask, mode.replace("mask", "truncate"), 0.0, math.inf)
        outside = ((ratio < (low or 0)) | (ratio > high)).expand_as(t.mask)[picked].double().mean().item()
        tokens = tokens_of(t)
        metrics = importance_metrics(tokens.old, tokens.rollout, tokens.owner, importance)
        masked = mode.endswith("mask")
        wanted = {"truncated": 0 if masked else outside, "masked": outside if masked else 0}
        assert metrics == pytest.approx(wanted)
        shares.append(outside)
    assert 0 < sum(shares) < len(shares)


def test_without_importance_sampling_every_weight_is_one():
    t = tokens_of(tensors())
    off = Importance("off", 0.0, 2.0)
    assert torch.equal(weights(t.old, t.rollout, t.owner, off), torch.ones(len(t.old)))
    assert importance_metrics(t.old, t.rollout, t.owner, off) == {"truncated": 0, "masked": 0}


def few(new, old, advantages, rollout=None):
    owner = torch.arange(len(new))
    return loss.Tokens(new, old, old if rollout is None else rollout, advantages, owner)


def test_one_update_pushes_each_token_by_its_advantage_over_the_steps_tokens():
    new = torch.tensor([-1.0, -2.0, -0.5], requires_grad=True)
    advantages = torch.tensor([1.0, -0.5, 2.0])
    mine = settings()
    tokens = few(new, new.detach(), advantages)
    (
        loss.policy_loss(tokens, mine) * loss.token_scale(mine.objective, tokens.owner, loss.Played(3, 3), None)
    ).sum().backward()
    assert torch.allclose(new.grad, -advantages / 3)


@pytest.mark.parametrize(
    ("shift", "advantage", "moves"), [(0.5, 1.0, False), (0.5, -1.0, True), (-0.5, -1.0, False), (-0.5, 1.0, True)]
)
def test_a_clipped_token_has_no_gradient_and_is_counted(shift, advantage, moves):
    old = torch.tensor([-1.0])
    new = (old + shift).requires_grad_(True)
    tokens = few(new, old, torch.tensor([advantage]))
    loss.policy_loss(tokens, settings()).sum().backward()
    assert bool(new.grad.abs().item() > 0) == moves
    below, above = (bool(one.item()) for one in loss.bounded(tokens, settings().objective))
    assert (below, above) == (not moves and shift < 0, not moves and shift > 0)


@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_a_ratio_too_large_for_a_float_is_a_clipped_ratio(name):
    """exp(95) is infinite in f32."""
    new = torch.tensor([-1.0, -1.0, -1.0], requires_grad=True)
    tokens = few(new, torch.tensor([-96.0, -96.0, -1.0]), torch.tensor([1.0, 0.0, 1.0]))
    value = loss.policy_loss(tokens, settings(name)).sum()
    value.backward()
    assert value.isfinite() and new.grad.isfinite().all()
    assert new.grad[1] == 0 and new.grad[2] != 0
    assert (new.grad[0] == 0) == (name != "cispo")


def test_a_masked_token_has_no_gradient_whatever_its_ratio():
    new = torch.tensor([-1.0, -1.0], requires_grad=True)
    old = torch.tensor([-96.0, -1.0])
    tokens = few(new, old, torch.tensor([-1.0, -1.0]), rollout=torch.tensor([-90.0, -1.0]))
    loss.policy_loss(tokens, settings(importance=Importance("token-mask", 0.5, 2.0))).sum().backward()
    assert new.grad.tolist() == [0, 1]


def test_the_importance_weight_is_bounded_and_has_no_gradient():
    old = torch.tensor([-1.0, -1.0], requires_grad=True)
    found = weights(old, torch.tensor([-3.0, -0.5]), torch.arange(2), TRUNCATED)
    assert found.tolist() == pytest.approx([2.0, 0.6065], abs=1e-4)
    assert not found.requires_grad


@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_rollouts_that_are_not_in_the_batch_count_in_the_mean(name):
    """As in TRL, where a group without spread has advantages of 0."""
    everyone = tensors()
    everyone.advantages[:2] = 0
    some = SimpleNamespace(**{key: value[2:] for key, value in vars(everyone).items()})
    mine, tokens = settings(name), tokens_of(some)
    scale = loss.token_scale(mine.objective, tokens.owner, played(everyone), 64)
    value = (loss.policy_loss(tokens, mine) * scale).sum()
    assert value.item() == pytest.approx(trl_loss(everyone, OBJECTIVES[name], constant=64).item(), abs=1e-6)


def test_masked_rollouts_count_in_a_mean_over_rollouts_and_not_in_one_over_tokens():
    """As in TRL, where mask_truncated_completions masks all tokens of a completion before they are counted."""
    everyone = tensors()
    some = SimpleNamespace(**{key: value[2:] for key, value in vars(everyone).items()})
    everyone.mask[:2] = 0
    for name in ("dapo", "dr-grpo"):
        mine, tokens = settings(name), tokens_of(some)
        scale = loss.token_scale(mine.objective, tokens.owner, played(everyone), 64)
        value = (loss.policy_loss(tokens, mine) * scale).sum()
        assert value.item() == pytest.approx(trl_loss(everyone, OBJECTIVES[name], constant=64).item(), abs=1e-6)


def test_mismatch_metrics_are_those_of_the_definition():
    old, rollout = torch.tensor([-1.0, -2.0]), torch.tensor([-1.1, -1.8])
    metrics = loss.mismatch_metrics(old, rollout)
    assert metrics["mismatch"] == pytest.approx({"mean": 0.15, "p99": 0.199, "max": 0.2}, abs=1e-6)
    assert metrics["mismatchKl"]["k1"] == pytest.approx(0.05, abs=1e-6)


def test_both_estimates_over_tokens_as_often_as_the_engine_samples_them_are_torchs_kl():
    engine, learner = torch.tensor([0.5, 0.25, 0.25]), torch.tensor([0.2, 0.7, 0.1])
    played = torch.tensor([0, 0, 1, 2])
    wanted = kl_divergence(Categorical(engine), Categorical(learner)).item()
    found = loss.mismatch_metrics(learner.log()[played], engine.log()[played])["mismatchKl"]
    assert found == pytest.approx({"k1": wanted, "k3": wanted}, rel=1e-6)
