"""Reads the batch file that hone writes (format: src/core/learn/batch.ts)."""

import json
import os
from dataclasses import dataclass, replace

import torch
from safetensors import safe_open

from .device import on_device
from .errors import Refused

VERSION = "3"


@dataclass(frozen=True)
class BatchSequence:
    """One sequence of a rollout, which has one unless an agent played it. Tensors have its length."""

    ids: torch.Tensor
    sampled: torch.Tensor
    """bool: the policy sampled this token."""
    group: int
    prompt: int
    """Tokens at the start that the group shares; none of them is sampled."""
    first_slot: int
    """Index of its first sampled token among the sampled tokens of the batch."""
    of_rollout: int = 0
    """Number of its rollout in the batch."""
    allowed: torch.Tensor | None = None
    """Number of the set that a token was drawn from, -1 where every token could come; None: everywhere."""
    seed: int | None = None
    """From which hone's own engine drew its tokens, each from the whole distribution; None where that is not known."""


@dataclass(frozen=True)
class Batch:
    """Input of one update. Tensors over S, the sampled tokens of all sequences in order."""

    sequences: list[BatchSequence]
    rollout: torch.Tensor
    """Log-probability under the policy that sampled it, [S]."""
    advantages: torch.Tensor
    """Of the token's rollout, [S]."""
    owner: torch.Tensor
    """Number of the token's sequence, [S]."""
    of_rollout: torch.Tensor
    """Number of the token's rollout, [S]. The sequences of one rollout share its advantage."""
    temperature: float
    sets: torch.Tensor | None = None
    """uint8 [sets, vocabulary / 8]: a bit for each token that could come, the lowest of a byte first."""

    def on(self, device: torch.device) -> "Batch":
        """With the tensors over S there; sequences stay."""
        names = ("rollout", "advantages", "owner", "of_rollout", *(() if self.sets is None else ("sets",)))
        return replace(self, **{name: on_device(getattr(self, name), device) for name in names})

    @property
    def sampled_tokens(self) -> int:
        return len(self.rollout)

    @property
    def tokens(self) -> int:
        return sum(len(one.ids) for one in self.sequences)

    @property
    def rollouts(self) -> int:
        return len({one.of_rollout for one in self.sequences})

    @property
    def groups(self) -> int:
        return len({one.group for one in self.sequences})


def read_batch(path: str, vocabulary: int) -> Batch:
    """Raises Refused when there is no such file, it is not a batch file, is empty, or has ids that the model lacks."""
    if not os.path.exists(path):
        raise Refused(f"there is no batch file {path}")
    with safe_open(path, framework="pt") as file:
        about = file.metadata() or {}
        if about.get("format") != "hone-batch" or about.get("version") != VERSION:
            raise Refused(f"{path} is not a batch of this version of hone")
        ids, sampled = file.get_tensor("ids").long(), file.get_tensor("sampled").bool()
        logprobs, advantages = file.get_tensor("logprobs"), file.get_tensor("advantages")
        lengths, groups, prompts, rollouts = (
            file.get_tensor(name).tolist() for name in ("lengths", "groups", "prompts", "rollouts")
        )
        restricted = "sets" in list(file.keys())
        allowed = file.get_tensor("allowed").long() if restricted else None
        sets = file.get_tensor("sets") if restricted else None
    if not lengths or not sampled.any():
        raise Refused("the batch has no sampled token: there is nothing to learn from")
    if int(ids.max()) >= vocabulary or int(ids.min()) < 0:
        raise Refused(
            f"the batch has token {int(ids.max())}, the model has {vocabulary} tokens: another model sampled it"
        )

    of_each = [None] * len(lengths) if allowed is None else allowed.split(lengths)
    seeds = json.loads(about.get("seeds", "null")) or [None] * len(lengths)
    sequences: list[BatchSequence] = []
    slot = 0
    for part_ids, part_sampled, group, prompt, rollout, part_allowed, seed in zip(
        ids.split(lengths), sampled.split(lengths), groups, prompts, rollouts, of_each, seeds, strict=True
    ):
        sequences.append(BatchSequence(part_ids, part_sampled, group, prompt, slot, rollout, part_allowed, seed))
        slot += int(part_sampled.sum())
    owner = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))[sampled]
    of_rollout = torch.tensor(rollouts)[owner]
    temperature = float(about["temperature"])
    return Batch(sequences, logprobs[sampled], advantages[owner], owner, of_rollout, temperature, sets)
