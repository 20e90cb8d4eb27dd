"""TRL's GRPOTrainer._compute_loss on log-probabilities that are known already, set as loss.py says it corresponds."""

from collections import defaultdict
from types import SimpleNamespace

import torch
from trl.trainer.grpo_trainer import GRPOTrainer

TRL = {"dapo": "dapo", "grpo": "grpo", "dr-grpo": "dr_grpo", "gspo": "grpo", "cispo": "cispo"}
"""loss_type by hone's name."""


def importance_ratio(old, rollout, mask, mode="token-truncate", low=None, high=2.0):
    """As GRPOConfig describes vllm_importance_sampling_mode: [B, T], or [B, 1] of sequences."""
    difference = (old - rollout) * mask
    ratio = torch.exp(difference.sum(-1, keepdim=True) if mode.startswith("sequence") else difference)
    if mode.endswith("truncate"):
        return torch.clamp(ratio, min=low, max=high)
    return torch.where((ratio >= (low or 0)) & (ratio <= high), ratio, 0.0)


def trl_loss(t, objective, beta=0.0, constant=None, importance=None):
    """`t` has new, old, rollout, base and mask, all [B, T], and advantages [B]. `objective` is hone's record."""
    accelerator = SimpleNamespace(num_processes=1, gather=lambda value: value, reduce=lambda value, reduction: value)
    high = objective["clipHigh"]
    trainer = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *_, **__: (t.new, torch.zeros_like(t.new), None),
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        importance_sampling_level=objective["ratio"],
        beta=beta,
        loss_type=TRL[objective["name"]],
        epsilon_low=objective["clipLow"],
        epsilon_high=1 + high if objective["name"] == "cispo" else high,
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
        "importance_sampling_ratio": importance_ratio(t.old, t.rollout, t.mask, **(importance or {})),
        "num_items_in_batch": t.mask.sum().float(),
    }
    return GRPOTrainer._compute_loss(trainer, SimpleNamespace(), inputs)
