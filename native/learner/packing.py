"""Packs trajectories into rows without padding, in which every prefix that several of them share is computed once.

A row is a trie of token ids, laid out depth first: a position sees those on the path from the root to it. Positions
are numbered as in the trajectory alone, so the model's output is that of the trajectories computed separately. Rollouts
share more than their prompt: the same call has the same result of a tool, and all prompts of a task begin with the same
instructions. Gradients of all trajectories add up at the positions that they share.

A trajectory is cut before its last sampled token: nothing is predicted from there on.
"""

from dataclasses import dataclass

import torch

from .batch import Batch, BatchSequence


@dataclass(frozen=True)
class Segment:
    """Positions that one trajectory adds to those before it in the row: contiguous, in the trajectory's order."""

    length: int
    before: tuple[tuple[int, int], ...]
    """The preceding positions of the trajectory, as (first, end) of parts of the row, in the trajectory's order."""


@dataclass(frozen=True)
class Pack:
    """One row. T positions, of which P predict the S sampled tokens of the row's trajectories."""

    ids: torch.Tensor
    """[T]"""
    positions: torch.Tensor
    """Index within the trajectory, [T]"""
    ends: torch.Tensor
    """For each position the end of the positions that continue it, [T]: query q sees key k if k <= q < ends[k]."""
    segments: tuple[Segment, ...]
    predicting: torch.Tensor
    """Positions whose outputs predict sampled tokens, rising, [P]; one is there for each set that tokens behind it were
    drawn from"""
    sources: torch.Tensor
    """Index among the P of the position that predicts each sampled token, rising, [S]"""
    targets: torch.Tensor
    """Ids of the sampled tokens, [S]"""
    slots: torch.Tensor
    """Their indices among the sampled tokens of the batch, [S]"""
    allowed: torch.Tensor | None = None
    """Number of the set that the tokens of each of the P were drawn from, -1 where every token could come, [P]; None:
    everywhere"""


@dataclass(frozen=True)
class _Member:
    """A trajectory as far as it is computed."""

    trajectory: BatchSequence
    ids: torch.Tensor
    shared: int
    """Number of positions that the member before it has computed for it."""


def plan(batch: Batch, budget: int) -> list[Pack]:
    """Rows of at most `budget` positions (a single trajectory may be longer), with as few positions as possible."""
    return plan_trajectories(batch.sequences, budget)


def plan_trajectories(trajectories: list[BatchSequence], budget: int, shares: bool = True) -> list[Pack]:
    """As `plan`. Without `shares` rows hold whole trajectories one after the other."""
    members = _sorted(trajectories, shares)
    return [_pack(members[start:end]) for start, end in _rows(members, budget)]


def _sorted(trajectories: list[BatchSequence], shares: bool) -> list[_Member]:
    """Sorted by their ids: trajectories with a common prefix are neighbours, in the depth-first order of the trie."""
    computed = []
    for trajectory in trajectories:
        sampled = trajectory.sampled.nonzero()
        if len(sampled):
            computed.append((trajectory.ids[: int(sampled[-1])], trajectory))
    computed.sort(key=lambda pair: pair[0].tolist())
    members: list[_Member] = []
    for ids, trajectory in computed:
        shared = _common(members[-1].ids, ids) if shares and members else 0
        members.append(_Member(trajectory, ids, shared))
    return members


def _common(one: torch.Tensor, other: torch.Tensor) -> int:
    length = min(len(one), len(other))
    different = (one[:length] != other[:length]).nonzero()
    return int(different[0]) if len(different) else length


def _rows(members: list[_Member], budget: int) -> list[tuple[int, int]]:
    """Cuts the sorted members into rows. A row recomputes the prefix that its first member shares with the row before.

    Minimises the positions, then the rows: best[n] is about the first n members.
    """
    best: list[tuple[int, int, int]] = [(0, 0, 0)]
    for end in range(1, len(members) + 1):
        choices, after_first = [], 0
        for start in range(end - 1, -1, -1):
            first = members[start]
            size = len(first.ids) + after_first
            if size > max(budget, len(members[end - 1].ids)):
                break
            positions, rows, _ = best[start]
            choices.append((positions + size, rows + 1, start))
            after_first += len(first.ids) - first.shared
        best.append(min(choices))
    rows: list[tuple[int, int]] = []
    end = len(members)
    while end:
        start = best[end][2]
        rows.append((start, end))
        end = start
    return rows[::-1]


def _pack(members: list[_Member]) -> Pack:
    ids, places, segments, left = [], [], [], []
    predicting, targets, slots, allowed = [], [], [], []
    path = torch.empty(0, dtype=torch.long)
    parts: list[tuple[int, int]] = []
    at = 0
    for index, member in enumerate(members):
        shared = member.shared if index else 0
        length = len(member.ids) - shared
        if length:
            left.append((path[shared:], at))
            path = torch.cat((path[:shared], torch.arange(at, at + length)))
            parts = _first(parts, shared)
            segments.append(Segment(length, tuple(parts)))
            parts.append((at, at + length))
            ids.append(member.ids[shared:])
            places.append(torch.arange(shared, len(member.ids)))
            at += length
        trajectory = member.trajectory
        sampled = trajectory.sampled.nonzero().flatten()
        predicting.append(path[sampled - 1])
        among = trajectory.allowed
        allowed.append(torch.full_like(sampled, -1) if among is None else among[sampled])
        targets.append(trajectory.ids[sampled])
        slots.append(torch.arange(trajectory.first_slot, trajectory.first_slot + len(sampled)))
    ends = torch.full((at,), at)
    for positions, end in left:
        ends[positions] = end
    # Tokens that one position predicts are neighbours, so that a range of positions has a range of tokens.
    among = torch.cat(allowed)
    each = int(among.max()) + 2
    every, order = (torch.cat(predicting) * each + among + 1).sort(stable=True)
    unique, sources = every.unique_consecutive(return_inverse=True)
    return Pack(
        torch.cat(ids),
        torch.cat(places),
        ends,
        tuple(segments),
        unique // each,
        sources,
        torch.cat(targets)[order],
        torch.cat(slots)[order],
        unique % each - 1 if each > 1 else None,
    )


def _first(parts: list[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """The parts of the first `count` positions of a path."""
    kept: list[tuple[int, int]] = []
    for start, end in parts:
        if count > 0:
            kept.append((start, min(end, start + count)))
        count -= end - start
    return kept
