"""The policy-gradient losses, as pure functions of log-probabilities. All tensors are over S sampled tokens.

Three policies are told apart: `rollout` sampled the tokens (the engine), `old` is this learner before the update, and
`new` is being trained. old/new is what PPO clips; old/rollout only corrects for the two programs rounding differently.

References
- clipped ratio: PPO (arXiv 1707.06347); a higher upper bound: DAPO (arXiv 2503.14476)
- group advantages: GRPO (arXiv 2402.03300); division by a constant instead of lengths: Dr. GRPO (arXiv 2503.20783)
- truncated mismatch weight: TIS (Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy RL
  training")
- k1, k3 estimates of KL: Schulman 2020, http://joschu.net/blog/kl-approx.html

In TRL's GRPOConfig: `loss="grpo"` is loss_type "dapo" (TRL's "grpo" divides by each sequence's length), "dr-grpo" is
"dr_grpo"; both with importance_sampling_level "token", vllm_importance_sampling_mode "token_truncate" and
vllm_importance_sampling_clip_max = mismatch_clip, epsilon = clip_low, epsilon_high = clip_high, beta = kl_coefficient.
"""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class LossSettings:
    kind: str
    """"grpo" or "dr-grpo": what the sum over tokens is divided by."""
    clip_low: float
    clip_high: float
    kl_coefficient: float
    """Weight of KL(new ‖ base); with 0, `base` is not needed."""
    mismatch_clip: float
    """Upper bound of old/rollout."""


def normaliser(
    settings: LossSettings, sampled_tokens: int, trajectories: int, max_completion_tokens: int | None
) -> float:
    """What the whole step's sum is divided by; never a micro-batch's own count, so that packing changes nothing."""
    if settings.kind == "grpo":
        return float(sampled_tokens)
    if settings.kind == "dr-grpo":
        if not max_completion_tokens:
            raise ValueError("dr-grpo needs maxCompletionTokens, the constant it divides by")
        return float(trajectories * max_completion_tokens)
    raise ValueError(f"unknown loss {settings.kind!r}; there are grpo and dr-grpo")


def mismatch_weights(old: torch.Tensor, rollout: torch.Tensor, clip: float) -> torch.Tensor:
    """min(π_old/π_rollout, clip), a constant of the update."""
    return (old - rollout).exp().clamp(max=clip).detach()


def k3(logprobs: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Estimate of KL(π ‖ reference) from samples of π: never negative, and unbiased."""
    log_ratio = reference - logprobs
    return log_ratio.exp() - log_ratio - 1


def policy_loss(
    new: torch.Tensor,
    old: torch.Tensor,
    rollout: torch.Tensor,
    advantages: torch.Tensor,
    base: torch.Tensor | None,
    settings: LossSettings,
) -> torch.Tensor:
    """Loss of each token, [S], before division. Differentiable in `new` alone."""
    ratio = (new - old.detach()).exp()
    clipped = ratio.clamp(1 - settings.clip_low, 1 + settings.clip_high)
    loss = -torch.minimum(ratio * advantages, clipped * advantages)
    loss = loss * mismatch_weights(old, rollout, settings.mismatch_clip)
    if settings.kl_coefficient:
        if base is None:
            raise ValueError("a KL term needs the base model's log-probabilities")
        loss = loss + settings.kl_coefficient * k3(new, base)
    return loss


def clipped(new: torch.Tensor, old: torch.Tensor, advantages: torch.Tensor, settings: LossSettings) -> torch.Tensor:
    """Tokens whose ratio is outside the bounds on the side that takes their gradient away, bool [S]."""
    ratio = (new - old).exp()
    high = (ratio > 1 + settings.clip_high) & (advantages > 0)
    low = (ratio < 1 - settings.clip_low) & (advantages < 0)
    return high | low


def mismatch_metrics(old: torch.Tensor, rollout: torch.Tensor) -> dict[str, dict[str, float]]:
    """How far the engine and the learner are apart before the update."""
    log_ratio = (old - rollout).double()
    gap = log_ratio.abs()
    return {
        "gap": {"mean": gap.mean().item(), "p99": gap.quantile(0.99).item(), "max": gap.max().item()},
        # Samples come from the rollout policy: KL(rollout ‖ old).
        "klRollout": {"k1": -log_ratio.mean().item(), "k3": (log_ratio.exp() - log_ratio - 1).mean().item()},
    }
