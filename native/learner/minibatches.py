"""Which rollouts each update of a step is computed from: whole groups, dealt to mini-batches, in rows."""

import random
from dataclasses import dataclass

import torch

from . import loss
from .backend import Backend
from .batch import Batch, BatchSequence
from .packing import Pack
from .ranks import Ranks
from .request import StepRequest
from .update_check import check_rows


@dataclass(frozen=True)
class MiniBatch:
    """Input of one update."""

    packs: list[Pack]
    own: list[Pack]
    """Those that this rank computes."""
    slots: torch.Tensor
    """Indices of its tokens among the batch's."""
    rollouts: int


def deal(batch: Batch, count: int, seed: int) -> list[list[BatchSequence]]:
    """Assigns whole groups to mini-batches, as evenly as possible; never more mini-batches than groups."""
    groups = sorted({trajectory.group for trajectory in batch.sequences})
    count = min(count, len(groups))
    if count > 1:
        random.Random(seed).shuffle(groups)
    hands = [set(groups[number::count]) for number in range(count)]
    return [[trajectory for trajectory in batch.sequences if trajectory.group in hand] for hand in hands]


def minibatches_of(backend: Backend, batch: Batch, request: StepRequest, ranks: Ranks) -> list[MiniBatch]:
    """Those of one pass over the batch, in the order of their updates."""
    minibatches = []
    for trajectories in deal(batch, request.minibatches, request.seed):
        packs, own = ranks.plan(backend, trajectories, request.micro_batch_tokens)
        check_rows(packs, trajectories)
        slots = torch.cat([pack.slots for pack in packs])
        minibatches.append(MiniBatch(packs, own, slots, len({trajectory.of_rollout for trajectory in trajectories})))
    return minibatches


def scales_of(batch: Batch, minibatches: list[MiniBatch], request: StepRequest) -> torch.Tensor:
    """Factor of each token's loss in its mini-batch's (loss.token_scale), [S]."""
    scales = torch.empty(batch.sampled_tokens)
    rollouts = batch.rollouts if request.rollouts is None else request.rollouts
    tokens = batch.sampled_tokens if request.sampled_tokens is None else request.sampled_tokens
    for minibatch in minibatches:
        slots = minibatch.slots
        # Rollouts of the step that are not in the batch are distributed like those that are.
        played = loss.Played(
            rollouts=rollouts * (minibatch.rollouts / batch.rollouts),
            tokens=tokens * len(slots) / batch.sampled_tokens,
        )
        scales[slots] = loss.token_scale(
            request.objective, batch.of_rollout[slots], played, request.max_completion_tokens
        )
    return scales
