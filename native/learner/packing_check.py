"""Checks beforehand whether a backend keeps the trajectories of a packed row apart on its device.

A library may silently drop a mask on one device and apply it on another; the model would then learn from other rollouts
than intended. So three short trajectories, two with a common beginning, are computed in one row and separately.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from .batch import BatchSequence
from .errors import Refused
from .fused_weights import ADAPTER
from .packing import plan_trajectories
from .quantised import weights_of

PROMPT, LENGTHS = 8, (25, 18, 21)
"""The first PROMPT tokens of the first two are the same, as in a group."""
SAME = {"f32": 1e-3, "bf16": 0.1, "f16": 0.05}
"""Relative difference (root mean square) up to which two computations count as equal. Rounding alone differs by
some units in the last place of the type for each of the model's layers."""
GRADIENTS = {"f32": 1e-3, "bf16": 0.5, "f16": 0.2}
EACH = {"f32": 3e-3, "bf16": 0.9, "f16": 0.5}
"""The same for all gradients together, and for that of one parameter. A model that is sure of its tokens has small
gradients, which rounding moves far: with the output of each linear layer disturbed by one rounding (rounding.py) those
of the tiny model moved by 0.1 to 0.6 in bf16 and 0.02 to 0.06 in f16, of one parameter by up to 0.8 and 0.14. A lost
gradient differs by 1."""
NOISE = 1 / 4
"""Root mean square of an adapter's scaled product B·A in a check, relative to the weights beside it. Much
larger, models differ by more from rounding alone; much smaller, an adapter's part of a gradient is lost in rounding."""


@dataclass(frozen=True)
class Limits:
    """Relative differences up to which results count as equal."""

    states: float
    slopes: float
    """Of each parameter."""


@dataclass(frozen=True)
class Computed:
    states: torch.Tensor
    """Hidden states at predicting positions, [S, width]"""
    slopes: dict[str, torch.Tensor]
    """Gradient of a fixed sum of them in each trained parameter, by its name; none where nothing is trained"""

    def finite(self) -> bool:
        return all(bool(one.isfinite().all()) for one in (self.states, *self.slopes.values()))


def check_packing(backend: Any, lengths: tuple[int, int, int] = LENGTHS) -> torch.Tensor:
    """Hidden states [S, width] of a packed row of rollouts of these lengths. Gradients, adapters and random state are
    left unchanged.

    Raises Refused when the packed row gives other hidden states, with gradients or without, or another gradient of the
    adapter.
    """
    trajectories = trial_rows(backend.vocabulary, PROMPT, lengths)
    third = trajectories[-1]
    # The same row with other tokens in one group: the rounding is the same, and a change in the other group is a leak.
    changed = [_other_tokens(one) if one.group == third.group else one for one in trajectories]
    rest = [one if one.group == third.group else _other_tokens(one) for one in trajectories]
    with untouched(backend):
        packed = computed_rows(backend, [trajectories])
        scored = computed_rows(backend, [trajectories], learns=False)
        alone = computed_rows(backend, [[one] for one in trajectories])
        beside = torch.cat(
            (
                computed_rows(backend, [changed]).states[: third.first_slot],
                computed_rows(backend, [rest]).states[third.first_slot :],
            )
        )
    limit = SAME[backend.precision]
    each = Limits(limit, EACH[backend.precision])
    whole = difference(*(torch.cat([one.flatten() for one in of.slopes.values()]) for of in (packed, alone)))
    apart = [*compared(packed, alone, each), ("gradients", whole, GRADIENTS[backend.precision])]
    differences = [
        *((f"{what} differ packed and alone", much, most) for what, much, most in apart),
        ("hidden states differ with gradients and without", difference(scored.states, packed.states), limit),
        ("hidden states of rollouts change with their neighbour", difference(packed.states, beside), SAME["f32"]),
    ]
    for what, much, most in differences:
        # A comparison with NaN is false.
        if not much <= most:
            raise Refused(
                f"{backend.name} does not keep packed rollouts apart on {backend.placed()}: {what} "
                f"(by {much:.2g}, limit {most:g}; rollouts of {', '.join(map(str, lengths))} tokens); "
                "nothing was trained; use --learner peft"
            )
    return packed.states


@contextmanager
def untouched(backend: Any) -> Iterator[None]:
    """Adapters have noise as their B; gradients, B and random state are restored afterwards.

    A new adapter's B is 0, and so are its output, its part of the input's gradient, and the gradient of its A, rightly
    computed or not.
    """
    parameters = backend.trainable()
    gradients = [parameter.grad for parameter in parameters]
    random = torch.get_rng_state()
    adapted = [module for module in backend.model.modules() if ADAPTER in getattr(module, "lora_B", ())]
    kept = [module.lora_B[ADAPTER].weight.detach().clone() for module in adapted]
    try:
        _fill(adapted)
        yield
    finally:
        with torch.no_grad():
            for module, before in zip(adapted, kept, strict=True):
                module.lora_B[ADAPTER].weight.copy_(before)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        torch.set_rng_state(random)


@torch.no_grad()
def _fill(adapted: list[Any]) -> None:
    generator = torch.Generator().manual_seed(0)
    for module in adapted:
        a, b = module.lora_A[ADAPTER].weight, module.lora_B[ADAPTER].weight
        product = module.scaling[ADAPTER] * len(a) ** 0.5 * _size(a)
        noise = torch.randn(b.shape, generator=generator).to(b.device)
        b.copy_(noise * (NOISE * _size(weights_of(module.base_layer)) / product))


def _size(values: torch.Tensor) -> torch.Tensor:
    """Root mean square."""
    return torch.linalg.vector_norm(values, dtype=torch.float32).clamp(min=1e-12) / values.numel() ** 0.5


def _other_tokens(trajectory: BatchSequence) -> BatchSequence:
    """With the prompt of its group changed as theirs is, and its position in the row kept."""
    ids, prompt = trajectory.ids, trajectory.prompt
    parts = (ids[:1], ids[1:prompt].flip(0), ids[prompt : prompt + 1], ids[prompt + 1 :].flip(0))
    return replace(trajectory, ids=torch.cat(parts))


def trial_rows(vocabulary: int, prompt: int, lengths: tuple[int, int, int]) -> list[BatchSequence]:
    """Every token after the prompt is predicted. The third trajectory is in a group of its own.

    A row sorts them by their ids (packing.py): by their groups' first tokens, then by their own first tokens.
    """
    generator = torch.Generator().manual_seed(0)
    shared = torch.randint(vocabulary, (prompt,), generator=generator)
    made: list[BatchSequence] = []
    slot = 0
    for number, (group, length) in enumerate(zip((0, 0, 1), lengths, strict=True)):
        ids = torch.randint(vocabulary, (length,), generator=generator)
        if group == 0:
            ids[:prompt] = shared
        ids[0], ids[prompt] = group, number
        made.append(BatchSequence(ids, torch.arange(length) >= prompt, group, prompt, slot))
        slot += length - prompt
    return made


def computed_rows(backend: Any, rows: list[list[BatchSequence]], learns: bool = True) -> Computed:
    """Without `learns` hidden states alone, computed without gradients."""
    parameters = {name: one for name, one in backend.model.named_parameters() if one.requires_grad and learns}
    for parameter in parameters.values():
        parameter.grad = None
    sampled = sum(int(one.sampled.sum()) for row in rows for one in row)
    states: torch.Tensor | None = None
    for row in rows:
        (pack,) = plan_trajectories(row, sum(len(one.ids) for one in row), backend.shares)
        with torch.set_grad_enabled(learns):
            hidden = backend.computed(pack)[pack.sources.to(backend.device)]
            if states is None:
                states = torch.zeros(sampled, hidden.shape[1])
                direction = torch.randn(states.shape, generator=torch.Generator().manual_seed(0))
            if learns:
                (hidden.float() * direction[pack.slots].to(hidden.device)).sum().backward()
        states[pack.slots] = hidden.detach().float().cpu()
    return Computed(states, {name: _gradient(parameter) for name, parameter in parameters.items()})


def _gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    """On the CPU; 0 where the backward pass gave none."""
    gradient = torch.zeros(1).expand(parameter.shape) if parameter.grad is None else parameter.grad
    return gradient.float().cpu()


def compared(found: Computed, wanted: Computed, limits: Limits) -> list[tuple[str, float, float]]:
    """What was compared, by how much it differs, and by how much it may."""
    states = ("hidden states", difference(found.states, wanted.states), limits.states)
    apart = {name: difference(slope, wanted.slopes[name]) for name, slope in found.slopes.items()}
    return [states, *((f"gradients of {_short(name)}", much, limits.slopes) for name, much in apart.items())]


def _short(name: str) -> str:
    """Without what PEFT and transformers put around it."""
    return name.rpartition("model.")[2].removesuffix(".weight").removesuffix(f".{ADAPTER}")


def difference(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    return float((ours - theirs).norm() / theirs.norm().clamp(min=1e-12))
