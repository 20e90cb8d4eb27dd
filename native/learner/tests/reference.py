"""One update of a policy written a second time from its definitions, with transformers, PEFT and autograd alone.

Nothing of the learner is used: each trajectory is a row of its own, evaluated from its first token, and all its logits
exist.

- clipped ratio: PPO (arXiv 1707.06347, eq. 7), with DAPO's upper bound (arXiv 2503.14476, eq. 8)
- GRPO's KL to a reference, k3 (arXiv 2402.03300, eq. 4); mean over all tokens of the step as in DAPO
- Dr. GRPO: a constant in the place of lengths (arXiv 2503.20783)
- truncated importance weight of the sampler's rounding: TIS (Yao et al. 2025)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from torch.nn.utils import clip_grad_norm_


@dataclass(frozen=True)
class Rows:
    """A batch file as rows of equal length, filled up on the right. All [B, T], advantages [B, 1]."""

    ids: torch.Tensor
    exists: torch.Tensor
    sampled: torch.Tensor
    rollout: torch.Tensor
    advantages: torch.Tensor


def read_rows(path: str) -> Rows:
    file = load_file(path)
    lengths = file["lengths"].tolist()
    ids, sampled, rollout = (
        torch.nn.utils.rnn.pad_sequence(file[name].split(lengths), batch_first=True)
        for name in ("ids", "sampled", "logprobs")
    )
    exists = torch.arange(ids.shape[1]) < file["lengths"][:, None]
    return Rows(ids.long(), exists, sampled.bool(), rollout, file["advantages"][:, None])


@dataclass(frozen=True)
class Epoch:
    """One pass over the batch, up to its step of Adam."""

    loss: float
    norm: float
    """Before clipping, as are the gradients."""
    gradients: list[torch.Tensor]
    below: float
    above: float
    """Shares of tokens from which a bound of the ratio took the gradient."""
    bounded: float
    """Share of tokens whose mismatch weight was bounded."""
    ess: float
    """Effective sample size of the unbounded mismatch weights, as a share of the tokens."""
    kl: float
    """Mean over tokens."""


class Reference:
    """A policy with an adapter. `start` are the adapter's weights by name."""

    def __init__(self, model: torch.nn.Module, lora: Any, start: dict[str, torch.Tensor]) -> None:
        config = LoraConfig(r=lora.rank, lora_alpha=lora.alpha, target_modules=lora.targets, task_type="CAUSAL_LM")
        self.model = get_peft_model(model, config)
        named = {name: parameter for name, parameter in self.model.named_parameters() if parameter.requires_grad}
        assert named.keys() == start.keys()
        with torch.no_grad():
            for name, parameter in named.items():
                parameter.copy_(start[name])
        self.parameters = list(named.values())
        self._adam = torch.optim.AdamW(self.parameters, betas=(0.9, 0.99), weight_decay=0.1)

    def logprobs(self, rows: Rows, temperature: float) -> torch.Tensor:
        """Of each token given those before it, [B, T - 1]."""
        positions = torch.arange(rows.ids.shape[1]).expand_as(rows.ids)
        logits = self.model(
            input_ids=rows.ids, attention_mask=rows.exists.long(), position_ids=positions, use_cache=False
        ).logits
        scaled = logits[:, :-1].float() / temperature
        return scaled.log_softmax(-1).gather(-1, rows.ids[:, 1:, None])[..., 0]

    def update(self, rows: Rows, temperature: float, request: Any, stepped: Callable[[Epoch], None]) -> None:
        """`stepped` is called after each step of Adam."""
        sampled, rollout = rows.sampled[:, 1:], rows.rollout[:, 1:]
        with torch.no_grad():
            old = self.logprobs(rows, temperature)
            with self.model.disable_adapter():
                base = self.logprobs(rows, temperature)
        highest = request.importance.high
        mismatch = torch.minimum(torch.exp(old - rollout), torch.tensor(highest))
        unbounded = torch.exp((old - rollout)[sampled].double())
        ess = unbounded.sum().square().item() / (len(unbounded) * unbounded.square().sum().item())
        tokens, objective = int(sampled.sum()), request.objective
        divisor = tokens if objective.name == "dapo" else len(rows.ids) * request.max_completion_tokens
        low, high = 1 - objective.clip_low, 1 + objective.clip_high
        for _ in range(request.epochs):
            self._adam.zero_grad()
            new = self.logprobs(rows, temperature)
            ratio = torch.exp(new - old)
            surrogate = torch.minimum(ratio * rows.advantages, torch.clip(ratio, low, high) * rows.advantages)
            kl = torch.exp(base - new) - (base - new) - 1
            value = mismatch * surrogate - request.kl_coefficient * kl
            loss = -value[sampled].sum() / divisor
            loss.backward()
            gradients = [parameter.grad.clone() for parameter in self.parameters]
            stopped = [(rows.advantages < 0) & (ratio < low), (rows.advantages > 0) & (ratio > high)]
            norm = clip_grad_norm_(self.parameters, request.max_grad_norm)
            for group in self._adam.param_groups:
                group["lr"] = request.learning_rate
            self._adam.step()
            below, above = (one[sampled].double().mean().item() for one in stopped)
            bounded = (mismatch == highest)[sampled].double().mean().item()
            stepped(Epoch(loss.item(), norm.item(), gradients, below, above, bounded, ess, kl[sampled].mean().item()))
