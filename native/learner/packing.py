"""Packs trajectories into rows without padding, with the prompt that a group shares computed once.

A row holds trees: a prompt followed by the completions that continue it. Every position sees its own tree's prompt and
the earlier positions of its own completion; positions are numbered as in the trajectory alone. The model's output is
that of the trajectories computed one by one, at a fraction of the work: eight rollouts of one question evaluate
the question once.
"""

from dataclasses import dataclass

import torch

from .batch import Batch, Trajectory


@dataclass(frozen=True)
class Tree:
    """Where a prompt and its completions lie in the row: contiguous, the prompt first."""

    start: int
    prompt: int
    completions: tuple[int, ...]
    """Length of each, in order."""


@dataclass(frozen=True)
class Pack:
    """One row. T positions, S sampled tokens."""

    ids: torch.Tensor
    """[T]"""
    positions: torch.Tensor
    """Place in the trajectory, [T]"""
    trees: tuple[Tree, ...]
    predicting: torch.Tensor
    """Position whose output predicts the sampled token, [S]"""
    targets: torch.Tensor
    """Ids of the sampled tokens, [S]"""
    slots: torch.Tensor
    """Their places among the sampled tokens of the batch, [S]"""


@dataclass(frozen=True)
class _Branch:
    """A prompt with some of its completions, as large as it will be in the row."""

    members: tuple[Trajectory, ...]

    @property
    def prompt(self) -> int:
        return self.members[0].prompt

    @property
    def tokens(self) -> int:
        return self.prompt + sum(len(member.ids) - self.prompt for member in self.members)


def _branches(members: list[Trajectory], budget: int) -> list[_Branch]:
    """Splits one group where it exceeds the budget; each part computes the prompt again. Longest first."""
    members = sorted(members, key=lambda member: -len(member.ids))
    parts: list[list[Trajectory]] = []
    sizes: list[int] = []
    for member in members:
        extra = len(member.ids) - member.prompt
        place = next((i for i, size in enumerate(sizes) if size + extra <= budget), None)
        if place is None:
            parts.append([member])
            sizes.append(len(member.ids))
        else:
            parts[place].append(member)
            sizes[place] += extra
    return [_Branch(tuple(part)) for part in parts]


def plan(batch: Batch, budget: int) -> list[Pack]:
    """Rows of at most `budget` positions (a single trajectory may be longer): first fit, longest first."""
    return plan_trajectories(batch.trajectories, budget)


def plan_trajectories(trajectories: list[Trajectory], budget: int) -> list[Pack]:
    groups: dict[int, list[Trajectory]] = {}
    for trajectory in trajectories:
        groups.setdefault(trajectory.group, []).append(trajectory)
    branches = [branch for members in groups.values() for branch in _branches(members, budget)]
    rows: list[list[_Branch]] = []
    sizes: list[int] = []
    for branch in sorted(branches, key=lambda branch: -branch.tokens):
        place = next((i for i, size in enumerate(sizes) if size + branch.tokens <= budget), None)
        if place is None:
            rows.append([branch])
            sizes.append(branch.tokens)
        else:
            rows[place].append(branch)
            sizes[place] += branch.tokens
    return [_pack(row) for row in rows]


def _pack(branches: list[_Branch]) -> Pack:
    ids, positions, predicting, targets, slots, trees = [], [], [], [], [], []
    at = 0
    for branch in branches:
        prompt = branch.prompt
        start, last_of_prompt = at, at + prompt - 1
        ids.append(branch.members[0].ids[:prompt])
        positions.append(torch.arange(prompt))
        at += prompt
        for member in branch.members:
            own, sampled = member.ids[prompt:], member.sampled[prompt:].nonzero().flatten()
            ids.append(own)
            positions.append(torch.arange(prompt, len(member.ids)))
            # The first own token is predicted by the shared prompt's last position.
            predicting.append(torch.where(sampled == 0, last_of_prompt, at + sampled - 1))
            targets.append(own[sampled])
            slots.append(torch.arange(member.first_slot, member.first_slot + len(sampled)))
            at += len(own)
        trees.append(Tree(start, prompt, tuple(len(member.ids) - prompt for member in branch.members)))
    return Pack(
        torch.cat(ids), torch.cat(positions), tuple(trees), torch.cat(predicting), torch.cat(targets), torch.cat(slots)
    )
