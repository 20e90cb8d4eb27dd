"""Batches of traces: conversations of similar length side by side, with a target and a weight for each token."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .traces import ROLES, Trace

# Sorted by length within so many batches: short enough that batches stay mixed, long enough that padding stays small.
BATCHES_IN_WINDOW = 24


@dataclass(frozen=True)
class Batch:
    ids: Tensor
    """(conversations, length), padded on the right with 0."""
    weights: Tensor
    """Weight of predicting each token; 0 for padding and the first token. Same shape."""
    played: Tensor
    """Which tokens the expert wrote; same shape."""


def collate(traces: Sequence[Trace], given: float, rng: random.Random) -> Batch:
    """`given`: share of prompt and tool tokens that are trained too, at half weight: a world that is partly known is
    read better."""
    size = (len(traces), max(len(trace) for trace in traces))
    ids, weights, played = torch.zeros(size, dtype=torch.long), torch.zeros(size), torch.zeros(size, dtype=torch.bool)
    noise = torch.rand(size, generator=torch.Generator().manual_seed(rng.getrandbits(48)))
    for row, trace in enumerate(traces):
        at = 0
        for piece, role in trace.pieces:
            here = slice(at, at + len(piece))
            ids[row, here] = torch.tensor(piece)
            if role == ROLES["played"]:
                weights[row, here] = 1
                played[row, here] = True
            else:
                weights[row, here] = 0.5 * (noise[row, here] < given)
            at += len(piece)
    weights[:, 0] = 0
    return Batch(ids, weights, played)


def groups(traces: Iterator[Trace], tokens: int, rng: random.Random) -> Iterator[list[Trace]]:
    """Lists of traces of similar length, each of about `tokens` tokens with padding."""
    window: list[Trace] = []
    total = 0
    for trace in traces:
        window.append(trace)
        total += len(trace)
        if total < tokens * BATCHES_IN_WINDOW:
            continue
        # The noise keeps equal lengths from always meeting.
        window.sort(key=lambda trace: len(trace) + rng.random() * 8)
        batches: list[list[Trace]] = []
        longest = tokens
        for each in window:
            longest = max(longest, len(each))
            if not batches or longest * (len(batches[-1]) + 1) > tokens:
                batches.append([])
                longest = len(each)
            batches[-1].append(each)
        rng.shuffle(batches)
        yield from batches
        window, total = [], 0
