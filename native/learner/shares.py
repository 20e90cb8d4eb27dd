"""Rows of an update for several ranks: what a row costs, and who computes it. The same on every rank."""

from collections.abc import Callable

from .backend import Backend
from .batch import BatchSequence
from .packing import Pack, plan_trajectories
from .quantised import weights_in

EVEN = 1.1
"""The most that a rank has to compute, relative to an equal share, with which rows are not made smaller."""
ATTEMPTS = 4
"""Of making them smaller."""


def row_cost(backend: Backend) -> Callable[[Pack], float]:
    """Multiplications of a row's forward pass; those of the backward pass are about in proportion."""
    config = backend.base.config
    in_layers = weights_in(backend.model, ".layers.")
    output = backend.vocabulary * config.hidden_size
    attention = 2 * config.num_hidden_layers * config.hidden_size

    def cost(pack: Pack) -> float:
        return in_layers * len(pack.ids) + output * len(pack.predicting) + attention * _seen(pack)

    return cost


def _seen(pack: Pack) -> float:
    """Pairs of a position and one that it sees."""
    pairs = 0.0
    for segment in pack.segments:
        before = sum(end - start for start, end in segment.before)
        pairs += segment.length * (before + (segment.length + 1) / 2)
    return pairs


def dealt(costs: list[float], world: int) -> list[list[int]]:
    """Numbers of the rows of each rank, rising: the dearest row goes first, each to the rank that has least to do
    (Graham 1969, "Bounds on multiprocessing timing anomalies")."""
    hands: list[list[int]] = [[] for _ in range(world)]
    loads = [0.0] * world
    for number in sorted(range(len(costs)), key=lambda number: (-costs[number], number)):
        rank = min(range(world), key=lambda rank: (loads[rank], rank))
        hands[rank].append(number)
        loads[rank] += costs[number]
    return [sorted(hand) for hand in hands]


def plan_for(
    world: int, trajectories: list[BatchSequence], budget: int, shares: bool, cost: Callable[[Pack], float]
) -> list[Pack]:
    """As `plan_trajectories`, with smaller rows where the last rank would then end sooner; rows of few rollouts
    compute prefixes again that others have, too."""
    best = plan_trajectories(trajectories, budget, shares)
    least, even = _longest(best, world, cost)
    size = min(budget, -(-sum(len(pack.ids) for pack in best) // world))
    for _ in range(ATTEMPTS):
        if least <= EVEN * even:
            break
        packs = plan_trajectories(trajectories, size, shares)
        longest, _ = _longest(packs, world, cost)
        if longest < least:
            best, least = packs, longest
        size = max(1, size // 2)
    return best


def _longest(packs: list[Pack], world: int, cost: Callable[[Pack], float]) -> tuple[float, float]:
    """What the rank with most to do has to do, and an equal share."""
    costs = [cost(pack) for pack in packs]
    return max(sum(costs[number] for number in hand) for hand in dealt(costs, world)), sum(costs) / world
