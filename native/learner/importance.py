"""The importance weight π_old/π_rollout: corrects for the different rounding of the engine, whose tokens are trained
on, and for the updates since the version that played them (--staleness). π_rollout is of that version: each token keeps
the log-probability that it was sampled with.

A weight is truncated (bounded from below and above) or masked (tokens with a ratio outside the bounds contribute
nothing, but still count in the normaliser). The ratio is a token's, or that of its whole trajectory: the product of its
tokens' ratios.

References
- truncated weight of a token: TIS (Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy RL
  training")
- masked weights: MIS (Liu et al. 2025, "When speed kills stability")

In TRL's GRPOConfig: vllm_importance_sampling_mode with "_" for "-", vllm_importance_sampling_clip_max = high,
vllm_importance_sampling_clip_min = low; mode "off" is vllm_importance_sampling_correction = False. TRL's own defaults
are "sequence_mask" and 3, hone's "token-truncate" and 2.

In prime-rl up to February 2026, token_mask_low and token_mask_high (0.125 and 8) leave tokens out as "token-mask" with
these bounds does, but of the ratio π_new/π_rollout, recomputed in each update, as its loss has no π_old. Its
sequence_mask_low and _high leave out trajectories by their lowest and highest token, geo_mask_low and _high by the
geometric mean of their ratios; neither is the product that "sequence-mask" (and TRL) takes. Since March 2026 prime-rl
masks by the difference of the two probabilities instead (dppo_mask_low, dppo_mask_high), which no mode here does.
"""

import torch

from .objective import Importance


def over_trajectory(values: torch.Tensor, owner: torch.Tensor, mean: bool = False) -> torch.Tensor:
    """Sum (or mean) of the values of each token's trajectory, at each of its tokens, [S]."""
    counts = owner.bincount()
    total = values.new_zeros(len(counts)).index_add(0, owner, values)
    return (total / counts.clamp(min=1) if mean else total)[owner]


def _ratios(old: torch.Tensor, rollout: torch.Tensor, owner: torch.Tensor, settings: Importance) -> torch.Tensor:
    log_ratio = (old - rollout).detach()
    return (over_trajectory(log_ratio, owner) if settings.level == "sequence" else log_ratio).exp()


def weights(old: torch.Tensor, rollout: torch.Tensor, owner: torch.Tensor, settings: Importance) -> torch.Tensor:
    """For each token, [S]; constant within the update."""
    if settings.mode == "off":
        return torch.ones_like(old).detach()
    ratio = _ratios(old, rollout, owner, settings)
    if settings.masks:
        return ratio.masked_fill((ratio < settings.low) | (ratio > settings.high), 0)
    return ratio.clamp(min=settings.low, max=settings.high)


def importance_metrics(
    old: torch.Tensor, rollout: torch.Tensor, owner: torch.Tensor, settings: Importance
) -> dict[str, float]:
    """Shares of the tokens whose weight was bounded, and of those that were left out."""
    share = 0.0
    if settings.mode != "off":
        ratio = _ratios(old, rollout, owner, settings)
        share = ((ratio < settings.low) | (ratio > settings.high)).double().mean().item()
    return {"truncated": 0.0 if settings.masks else share, "masked": share if settings.masks else 0.0}


def effective_sample_size(old: torch.Tensor, rollout: torch.Tensor) -> float:
    """Share of the tokens [S] that would do as well without weights: (Σw)² / (S Σw²), 1 where all weights are equal.

    Of the tokens' ratios, unbounded: it is about the policies, not about the correction that was chosen. 1 / (1 + their
    variance). Kong 1992, "A note on importance sampling using standardized weights".
    """
    log_ratio = (old - rollout).double()
    # A common factor changes nothing, and exp stays finite.
    ratio = (log_ratio - log_ratio.max()).exp()
    return (ratio.sum().square() / (len(ratio) * ratio.square().sum())).item()
