"""The losses, against TRL's own on the same tensors and against their definitions."""

from collections import defaultdict
from types import SimpleNamespace

import pytest
import torch
from learner import loss
from trl.trainer.grpo_trainer import GRPOTrainer

GRPO = loss.LossSettings("grpo", 0.2, 0.28, 0.0, 2.0)


def tensors(batch=6, length=11, seed=0):
    """Padded, as TRL takes them: [B, T] with a mask, tool tokens in the middle masked out too."""
    generator = torch.Generator().manual_seed(seed)
    new = -torch.rand(batch, length, generator=generator) * 3
    old = new + torch.randn(batch, length, generator=generator) * 0.3
    rollout = old + torch.randn(batch, length, generator=generator) * 0.6
    base = new + torch.randn(batch, length, generator=generator) * 0.3
    mask = (torch.rand(batch, length, generator=generator) < 0.7).int()
    mask[:, 0] = 1
    advantages = torch.randn(batch, generator=generator)
    return SimpleNamespace(new=new, old=old, rollout=rollout, base=base, mask=mask, advantages=advantages)


def ours(t, settings, constant=None):
    picked = t.mask.bool()
    spread = t.advantages[:, None].expand_as(t.new)[picked]
    tokens = loss.policy_loss(t.new[picked], t.old[picked], t.rollout[picked], spread, t.base[picked], settings)
    return tokens.sum() / loss.normaliser(settings, int(picked.sum()), len(t.advantages), constant)


def trl_loss(t, loss_type, beta, constant):
    """TRL's GRPOTrainer._compute_loss, with a stand-in for the trainer that knows the log-probabilities already."""
    accelerator = SimpleNamespace(num_processes=1, gather=lambda value: value, reduce=lambda value, reduction: value)
    trainer = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *_, **__: (t.new, torch.zeros_like(t.new), None),
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        importance_sampling_level="token",
        beta=beta,
        loss_type=loss_type,
        epsilon_low=0.2,
        epsilon_high=0.28,
        use_vllm=True,
        vllm_importance_sampling_correction=True,
        max_completion_length=constant,
        current_gradient_accumulation_steps=1,
        _entropy_bonus_enabled=False,
        args=SimpleNamespace(delta=None, use_bias_correction_kl=False, steps_per_generation=1),
        accelerator=accelerator,
        model=SimpleNamespace(training=True),
        _metrics={"train": defaultdict(list)},
    )
    inputs = {
        "prompt_ids": torch.zeros(len(t.new), 1, dtype=torch.long),
        "prompt_mask": torch.ones(len(t.new), 1, dtype=torch.long),
        "completion_ids": torch.zeros_like(t.mask, dtype=torch.long),
        "completion_mask": torch.ones_like(t.mask),
        "tool_mask": t.mask,
        "advantages": t.advantages,
        "old_per_token_logps": t.old,
        "ref_per_token_logps": t.base,
        # vllm_importance_sampling_mode="token_truncate": clamped above, per token.
        "importance_sampling_ratio": torch.clamp(torch.exp(t.old - t.rollout), max=2.0),
        "num_items_in_batch": t.mask.sum().float(),
    }
    return GRPOTrainer._compute_loss(trainer, SimpleNamespace(), inputs)


@pytest.mark.parametrize("beta", [0.0, 0.04])
@pytest.mark.parametrize(("kind", "loss_type"), [("grpo", "dapo"), ("dr-grpo", "dr_grpo")])
def test_loss_and_gradient_equal_trl(kind, loss_type, beta):
    settings = loss.LossSettings(kind, 0.2, 0.28, beta, 2.0)
    for seed in range(5):
        t = tensors(seed=seed)
        t.new.requires_grad_(True)
        mine = ours(t, settings, constant=64)
        (my_gradient,) = torch.autograd.grad(mine, t.new)
        theirs = trl_loss(t, loss_type, beta, 64)
        (their_gradient,) = torch.autograd.grad(theirs, t.new)
        assert mine.item() == pytest.approx(theirs.item(), abs=1e-5)
        assert torch.allclose(my_gradient, their_gradient, atol=1e-5)


def test_one_update_pushes_each_token_by_its_advantage_over_the_steps_tokens():
    new = torch.tensor([-1.0, -2.0, -0.5], requires_grad=True)
    advantages = torch.tensor([1.0, -0.5, 2.0])
    old = new.detach()
    value = loss.policy_loss(new, old, old, advantages, None, GRPO).sum() / 3
    value.backward()
    assert torch.allclose(new.grad, -advantages / 3)


@pytest.mark.parametrize(
    ("shift", "advantage", "moves"), [(0.5, 1.0, False), (0.5, -1.0, True), (-0.5, -1.0, False), (-0.5, 1.0, True)]
)
def test_a_clipped_token_has_no_gradient_and_is_counted(shift, advantage, moves):
    old = torch.tensor([-1.0])
    new = (old + shift).requires_grad_(True)
    advantages = torch.tensor([advantage])
    loss.policy_loss(new, old, old, advantages, None, GRPO).sum().backward()
    assert bool(new.grad.abs().item() > 0) == moves
    assert bool(loss.clipped(new.detach(), old, advantages, GRPO).item()) != moves


def test_the_mismatch_weight_is_bounded_and_has_no_gradient():
    old = torch.tensor([-1.0, -1.0], requires_grad=True)
    weights = loss.mismatch_weights(old, torch.tensor([-3.0, -0.5]), 2.0)
    assert weights.tolist() == pytest.approx([2.0, 0.6065], abs=1e-4)
    assert not weights.requires_grad


def test_mismatch_metrics_are_those_of_the_definition():
    old, rollout = torch.tensor([-1.0, -2.0]), torch.tensor([-1.1, -1.8])
    metrics = loss.mismatch_metrics(old, rollout)
    assert metrics["gap"] == pytest.approx({"mean": 0.15, "p99": 0.199, "max": 0.2}, abs=1e-6)
    assert metrics["klRollout"]["k1"] == pytest.approx(0.05, abs=1e-6)


def test_an_unknown_loss_is_refused_by_name():
    with pytest.raises(ValueError, match="ppo"):
        loss.normaliser(loss.LossSettings("ppo", 0.2, 0.2, 0, 2), 1, 1, None)
