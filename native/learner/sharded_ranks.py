"""Ranks that have a part of each weight (sharded.py), and what of ranks.py is another thing for them; `join`."""

import datetime
import functools
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from .backend import Backend
from .batch import Trajectory
from .errors import Refused
from .launched import Rank
from .packing import Pack
from .ranks import ALONE, SKEW, JoinedRanks, Ranks
from .sharded import Sharding
from .shares import in_turns, plan_for, row_cost

Result = TypeVar("Result")


class ShardedRanks(JoinedRanks):
    """Each rank has a part of each weight, and all compute their rows at the same time, layer by layer."""

    def attach(self, backend: Backend) -> None:
        super().attach(backend)
        kind = "cpu:gloo,cuda:nccl" if backend.device.type == "cuda" else "gloo"
        group = self._distributed.new_group(backend=kind, timeout=datetime.timedelta(seconds=self._limit))
        parts = (group, self._number, self.world, self._sum)
        self.sharding = self.together("sharded", lambda: Sharding(backend.causal, backend.device, *parts))
        self.sharding.settle()
        backend.sharding = self.sharding

    def together(self, name: str, work: Callable[[], Result], passes: Sequence[bool] = ()) -> Result:
        sharding = self.sharding
        if not passes or sharding is None:
            return super().together(name, work)
        return super().together(name, lambda: sharding.passing(passes, work))

    def rows(
        self,
        name: str,
        packs: Sequence[Pack],
        own: list[Pack],
        work: Callable[[list[Pack]], Result],
        passes: Sequence[bool],
    ) -> list[Result]:
        results = []
        for turn in range(-(-len(packs) // self.world)):
            some = own[turn : turn + 1]
            result = self.together(name, functools.partial(work, some) if some else _nothing, passes)
            results += [result] if some else []
        return results

    def plan(self, backend: Backend, trajectories: list[Trajectory], budget: int) -> tuple[list[Pack], list[Pack]]:
        cost = row_cost(backend)
        packs = plan_for(self.world, trajectories, budget, backend.shares, cost, in_turns)
        own = in_turns([cost(pack) for pack in packs], self.world)[self._number]
        return packs, [packs[number] for number in own]

    def add_up(self, parameters: list[torch.nn.Parameter], value: float) -> float:
        # The gradients are added up layer by layer.
        summed = torch.tensor(value, dtype=torch.float64)
        self._sum(summed)
        return float(summed)

    def updated(self) -> None:
        super().updated()
        if self.sharding is not None:
            self.sharding.set_timeout(max(self._limit, SKEW * self._longest))


def _nothing() -> None:
    """What a rank does while others have a row more."""


def join(rank: Rank, device: str, shards: int | None = None) -> Ranks:
    """ALONE where the rank is the only one: then nothing of torch.distributed is used. `shards`: each of so many has a
    part of each weight. Raises Refused where there are others."""
    if shards is not None and rank.world != shards:
        raise Refused(
            f"--learner-shards {shards} gives a part of each weight to all processes of --learner-launch, and it "
            f"starts {rank.world}: name the same number in both, as torchrun --nproc-per-node {shards}"
        )
    if rank.world == 1:
        return ALONE
    return JoinedRanks(rank, device) if shards is None else ShardedRanks(rank, device)
