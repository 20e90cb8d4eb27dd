"""Checks beforehand whether a backend keeps the trajectories of a packed row apart on its device.

A library may silently drop a mask on one device and apply it on another; the model would then learn from other rollouts
than intended. So three short trajectories, two with a common beginning, are computed in one row and separately.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from .batch import Trajectory
from .errors import Refused
from .packing import plan_trajectories

PROMPT, LENGTHS = 8, (25, 18, 21)
"""The first PROMPT tokens of the first two are the same, as in a group."""
SAME = {"f32": 1e-3, "bf16": 0.1, "f16": 0.05}
"""Relative difference (root mean square) up to which two computations count as equal. Rounding alone differs by
some units in the last place of the type for each of the model's layers."""


def check_packing(backend: Any, lengths: tuple[int, int, int] = LENGTHS) -> torch.Tensor:
    """Hidden states [S, width] of a packed row of rollouts of these lengths. Gradients and random state are left
    unchanged.

    Raises Refused when the packed row gives other hidden states, with gradients or without, or another gradient of the
    adapter.
    """
    trajectories = trial_rows(backend.vocabulary, PROMPT, lengths)
    third = trajectories[-1]
    # The same row with other tokens in one group: the rounding is the same, and a change in the other group is a leak.
    changed = [_other_tokens(one) if one.group == third.group else one for one in trajectories]
    rest = [one if one.group == third.group else _other_tokens(one) for one in trajectories]
    with untouched(backend):
        packed, slopes = computed_rows(backend, [trajectories])
        scored = states_alone(backend, trajectories)
        alone, slopes_alone = computed_rows(backend, [[one] for one in trajectories])
        beside = torch.cat(
            (
                computed_rows(backend, [changed])[0][: third.first_slot],
                computed_rows(backend, [rest])[0][third.first_slot :],
            )
        )
    limit = SAME[backend.precision]
    differences = [
        ("hidden states differ packed and alone", difference(packed, alone), limit),
        ("hidden states differ with gradients and without", difference(scored, packed), limit),
        ("gradients differ packed and alone", difference(slopes, slopes_alone), limit),
        ("hidden states of rollouts change with their neighbour", difference(packed, beside), SAME["f32"]),
    ]
    for what, much, most in differences:
        # A comparison with NaN is false.
        if not much <= most:
            raise Refused(
                f"{backend.name} does not keep packed rollouts apart on {backend.placed()}: {what} "
                f"(by {much:.2g}, limit {most:g}; rollouts of {', '.join(map(str, lengths))} tokens); "
                "nothing was trained; use --learner peft"
            )
    return packed


@contextmanager
def untouched(backend: Any) -> Iterator[None]:
    """Gradients and random state are restored afterwards."""
    parameters = backend.trainable()
    kept = [parameter.grad for parameter in parameters]
    random = torch.get_rng_state()
    try:
        yield
    finally:
        for parameter, gradient in zip(parameters, kept, strict=True):
            parameter.grad = gradient
        torch.set_rng_state(random)


def _other_tokens(trajectory: Trajectory) -> Trajectory:
    """With the prompt of its group changed as theirs is, and its position in the row kept."""
    ids, prompt = trajectory.ids, trajectory.prompt
    parts = (ids[:1], ids[1:prompt].flip(0), ids[prompt : prompt + 1], ids[prompt + 1 :].flip(0))
    return replace(trajectory, ids=torch.cat(parts))


def trial_rows(vocabulary: int, prompt: int, lengths: tuple[int, int, int]) -> list[Trajectory]:
    """Every token after the prompt is predicted. The third trajectory is in a group of its own.

    A row sorts them by their ids (packing.py): by their groups' first tokens, then by their own first tokens.
    """
    generator = torch.Generator().manual_seed(0)
    shared = torch.randint(vocabulary, (prompt,), generator=generator)
    made: list[Trajectory] = []
    slot = 0
    for number, (group, length) in enumerate(zip((0, 0, 1), lengths, strict=True)):
        ids = torch.randint(vocabulary, (length,), generator=generator)
        if group == 0:
            ids[:prompt] = shared
        ids[0], ids[prompt] = group, number
        made.append(Trajectory(ids, torch.arange(length) >= prompt, group, prompt, slot))
        slot += length - prompt
    return made


def computed_rows(backend: Any, rows: list[list[Trajectory]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Hidden states [S, width] at predicting positions; gradients in all trained parameters of a fixed sum of them."""
    parameters = backend.trainable()
    for parameter in parameters:
        parameter.grad = None
    sampled = sum(int(one.sampled.sum()) for row in rows for one in row)
    states: torch.Tensor | None = None
    for row in rows:
        (pack,) = plan_trajectories(row, sum(len(one.ids) for one in row), backend.shares)
        with torch.enable_grad():
            hidden = backend.computed(pack)[pack.sources.to(backend.device)]
            if states is None:
                states = torch.zeros(sampled, hidden.shape[1])
                direction = torch.randn(states.shape, generator=torch.Generator().manual_seed(0))
            (hidden.float() * direction[pack.slots].to(hidden.device)).sum().backward()
        states[pack.slots] = hidden.detach().float().cpu()
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    return states, torch.cat([gradient.flatten().float().cpu() for gradient in gradients])


@torch.no_grad()
def states_alone(backend: Any, row: list[Trajectory]) -> torch.Tensor:
    """Hidden states [S, width] at predicting positions, computed without gradients."""
    (pack,) = plan_trajectories(row, sum(len(one.ids) for one in row), backend.shares)
    hidden = backend.computed(pack)[pack.sources.to(backend.device)].float().cpu()
    return torch.zeros_like(hidden).index_copy_(0, pack.slots.cpu(), hidden)


def difference(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    return float((ours - theirs).norm() / theirs.norm().clamp(min=1e-12))
