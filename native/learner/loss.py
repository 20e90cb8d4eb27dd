"""The policy-gradient losses, as pure functions of log-probabilities. All tensors are over S sampled tokens.

Three policies are distinguished: `rollout` sampled the tokens (the engine), `old` is this learner before the first
update on the batch, and `new` is being trained. Objectives bound new/old; old/rollout only corrects for the different
rounding of the two programs (importance.py) and, where the step was played by the policy of some updates before
(--staleness), for those updates. That is the decoupled objective: behaviour, proximal and trained policy (Hilton et al.
2021, "Batch size-invariance for policy optimization", arXiv 2110.00641; for language models AReaL, Fu et al. 2025,
arXiv 2505.24298, whose decoupled PPO bounds old/rollout from above as well).

References
- clipped ratio: PPO (arXiv 1707.06347); a higher upper bound: DAPO (arXiv 2503.14476)
- group advantages: GRPO (arXiv 2402.03300); division by a constant instead of lengths: Dr. GRPO (arXiv 2503.20783)
- one ratio for a whole trajectory, the geometric mean of its tokens' ratios: GSPO (arXiv 2507.18071)
- a bounded ratio as a constant weight of the log-probability: CISPO (MiniMax-M1, arXiv 2506.13585)
- k1, k3 estimates of KL: Schulman 2020, http://joschu.net/blog/kl-approx.html

In TRL's GRPOConfig, with beta = kl_coefficient and use_bias_correction_kl = False (here the KL term has no ratio):

| here | loss_type | importance_sampling_level | epsilon | epsilon_high |
| --- | --- | --- | --- | --- |
| dapo | "dapo" | "token" | clip_low | clip_high |
| grpo | "grpo" | "token" | clip_low | clip_high |
| dr-grpo | "dr_grpo" | "token" | clip_low | clip_high |
| gspo | "grpo" | "sequence" | clip_low | clip_high |
| cispo | "cispo" | "token" | unused | 1 + clip_high |

Where a
step has several mini-batches, TRL's "dapo" and "cispo" divide by their average number of tokens, here each by its own.

The constant of "dr-grpo" is the highest number of tokens of a completion, so its gradient is that of a mean over tokens
times the share of the constant that completions fill: with 2,560 tokens allowed and 100 used, a 26th. Adam divides a
gradient by its own size, so a constant factor leaves its step the same while gradients are far above its epsilon
(1e-8). But a norm bound that was chosen for "dapo" then hardly ever acts, and a step with longer completions weighs
more in Adam's moments than one with shorter ones, which is the point of the constant.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from .importance import over_trajectory, weights
from .objective import LossSettings, Objective


@dataclass(frozen=True)
class Tokens:
    """Arguments of the loss, [S] each."""

    new: torch.Tensor
    old: torch.Tensor
    rollout: torch.Tensor
    advantages: torch.Tensor
    owner: torch.Tensor
    """Number of the token's trajectory."""
    base: torch.Tensor | None = None


OVERFLOW = 80.0
"""Upper bound of an exponent: exp of more than 88 is infinite in f32."""


@dataclass(frozen=True)
class Played:
    """What an update's mean is over: the rollouts in the batch, and those left out of it because their gradient is
    zero. Dr. GRPO (its equation 1, and its code) and TRL divide by both: a mean over all sampled completions. Fractions
    where several mini-batches share a step."""

    rollouts: float
    """With those whose group has no spread, and those that are masked."""
    tokens: float
    """Sampled tokens: of the same rollouts without the masked ones, as TRL's num_items_in_batch."""


def token_scale(
    objective: Objective, of_rollout: torch.Tensor, played: Played, max_completion_tokens: int | None
) -> torch.Tensor:
    """Factor of each token's loss in the sum, [S], for the tokens of one update.

    `of_rollout` is the number of each token's rollout. A rollout counts as one however many sequences it has: its
    sampled tokens share what it weighs, and each is in one sequence alone.

    Of an update, never of a micro-batch, so that packing changes nothing.
    """
    if objective.normaliser == "tokens":
        return torch.full((len(of_rollout),), 1 / played.tokens)
    if objective.normaliser == "sequences":
        return 1 / (of_rollout.bincount()[of_rollout] * played.rollouts)
    if not max_completion_tokens:
        raise ValueError(f"{objective.name} needs maxCompletionTokens, the constant it divides by")
    return torch.full((len(of_rollout),), 1 / (played.rollouts * max_completion_tokens))


def k3(logprobs: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Estimate of KL(π ‖ reference) from samples of π: never negative, and unbiased."""
    log_ratio = reference - logprobs
    return log_ratio.exp() - log_ratio - 1


Surrogate = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, Objective], torch.Tensor]
"""(log of new/old, new log-probabilities, advantages, objective) → loss of each token, [S]."""


def clipped_ratio(
    log_ratio: torch.Tensor, new: torch.Tensor, advantages: torch.Tensor, objective: Objective
) -> torch.Tensor:
    """PPO's: minus the smaller of advantage times ratio and advantage times clipped ratio."""
    # With an advantage above 0 the bound holds long before exp overflows, and its gradient would be 0 · ∞ = NaN.
    safe = log_ratio.where(advantages < 0, log_ratio.clamp(max=OVERFLOW))
    ratio = safe.exp()
    return -torch.minimum(ratio * advantages, _clip(ratio, objective) * advantages)


def clipped_weight(
    log_ratio: torch.Tensor, new: torch.Tensor, advantages: torch.Tensor, objective: Objective
) -> torch.Tensor:
    """CISPO's: REINFORCE with the bounded ratio as a constant, so that every token keeps a gradient."""
    return -_clip(log_ratio.detach().exp(), objective) * advantages * new


def _clip(ratio: torch.Tensor, objective: Objective) -> torch.Tensor:
    return ratio.clamp(min=None if objective.clip_low is None else 1 - objective.clip_low, max=1 + objective.clip_high)


SURROGATES: dict[str, Surrogate] = {"clipped-ratio": clipped_ratio, "clipped-weight": clipped_weight}
"""By the name in hone's table of objectives (src/core/learn/objectives.ts)."""


def _log_ratio(tokens: Tokens, objective: Objective) -> torch.Tensor:
    log_ratio = tokens.new - tokens.old.detach()
    return log_ratio if objective.ratio == "token" else over_trajectory(log_ratio, tokens.owner, mean=True)


def policy_loss(tokens: Tokens, settings: LossSettings) -> torch.Tensor:
    """Loss of each token, [S], before `token_scale`. Differentiable in `new` alone.

    The tokens must be complete trajectories: ratios and importance weights may be a trajectory's.
    """
    objective = settings.objective
    weight = weights(tokens.old, tokens.rollout, tokens.owner, settings.importance)
    # The advantage of a masked token is set to 0, since a weight of 0 times an infinite ratio would be NaN.
    advantages = tokens.advantages.where(weight != 0, 0)
    loss = SURROGATES[objective.surrogate](_log_ratio(tokens, objective), tokens.new, advantages, objective) * weight
    if settings.kl_coefficient:
        if tokens.base is None:
            raise ValueError("a KL term needs the base model's log-probabilities")
        loss = loss + settings.kl_coefficient * k3(tokens.new, tokens.base)
    return loss


def bounded(tokens: Tokens, objective: Objective) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens on which the lower bound of the ratio acts, and those on which the upper one does, bool [S] each.

    For a clipped ratio: outside the bound on the side that removes the gradient. For a clipped weight: outside it.
    """
    ratio = _log_ratio(tokens, objective).exp()
    high = ratio > 1 + objective.clip_high
    low = torch.zeros_like(high) if objective.clip_low is None else ratio < 1 - objective.clip_low
    if objective.surrogate == "clipped-weight":
        return low, high
    return low & (tokens.advantages < 0), high & (tokens.advantages > 0)


def mismatch_metrics(old: torch.Tensor, rollout: torch.Tensor) -> dict[str, dict[str, float]]:
    """Distance between the engine and the learner with the weights that played."""
    log_ratio = (old - rollout).double()
    mismatch = log_ratio.abs()
    return {
        "mismatch": {
            "mean": mismatch.mean().item(),
            "p99": mismatch.quantile(0.99).item(),
            "max": mismatch.max().item(),
        },
        # Samples come from the rollout policy: KL(rollout ‖ old).
        "mismatchKl": {"k1": -log_ratio.mean().item(), "k3": (log_ratio.exp() - log_ratio - 1).mean().item()},
    }
