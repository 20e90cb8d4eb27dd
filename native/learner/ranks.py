"""Several processes that compute one update together, and the only one of a run without a launcher.

Each rank has the whole model and the whole batch, computes the rows that are its own, and adds up its gradients with
those of the others; from then on all do the same with the same numbers. Ranks must never wait for one that has taken
another path, so there are two rules:

- Work that a rank does alone is done in `together`, which ends by telling each other how it went. What failed on one
  rank then fails on all, as the same kind of error, and all go on in the same way: with smaller rows, in bf16, or not
  at all. An error outside of it is told at the end of the request, which itself is done in `together`.
- Numbers are exchanged only after that.

When a rank has ended LostRanks is raised, after which nothing can be computed: the process must end. A rank that does
not come is waited for: it may be slow. One whose process is gone or stands still is noticed by launch.py, and hone ends
ranks of which none makes progress.
"""

import datetime
import json
import zlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from .backend import Backend, Repeat
from .batch import BatchSequence
from .device import choose_device
from .errors import Refused, is_out_of_memory
from .launched import Rank
from .packing import Pack, plan_trajectories
from .shares import dealt, plan_for, row_cost

Result = TypeVar("Result")

MEET = datetime.timedelta(minutes=10)
"""Until all ranks have found each other, each of which has begun before: its network may not let them."""
WAIT = datetime.timedelta(days=1)
"""PyTorch waits for no rank without end."""
BUCKET = 2**24
"""Numbers of gradients that are added up at once."""

TOLD = "told to all ranks"
FINE, REPEAT, REFUSED, MEMORY, FAILED = range(5)
"""How work went; of several the last counts."""


class LostRanks(Exception):
    """Ranks have ended, do not answer, or have computed something else: nothing can be computed any more."""


class Ranks:
    """The only process: nothing is shared out, nothing is exchanged."""

    world = 1
    first = True
    """Whether this is the one that answers hone and writes checkpoints."""
    local_world = 1
    """Number of ranks on this machine."""

    def attach(self, backend: Backend) -> None:
        """Ways of computing that fail on one rank are then left by all."""

    def together(self, name: str, work: Callable[[], Result]) -> Result:
        """The result of work that needs nothing from other ranks, once it has succeeded on all. Where it failed on one,
        all raise: Repeat, Refused, an error of memory, or another one, whichever is the last in this order."""
        return work()

    def plan(self, backend: Backend, trajectories: list[BatchSequence], budget: int) -> tuple[list[Pack], list[Pack]]:
        """Rows of trajectories, of at most `budget` positions as in packing.py; and those that this rank computes."""
        packs = plan_trajectories(trajectories, budget, backend.shares)
        return packs, packs

    def collect(self, values: Sequence[torch.Tensor], own: Sequence[Pack], slots: torch.Tensor) -> None:
        """Each of `values` is [S of the batch], set where tokens are this rank's own; sets it at all of `slots`, each
        of which is one rank's own."""

    def add_up(self, parameters: list[torch.nn.Parameter], value: float) -> float:
        """Sums the gradients of all ranks, in place, and a value, which is returned."""
        return value

    def check_same(self, tensors: Callable[[], list[torch.Tensor]]) -> None:
        """Raises Refused where they are not the same on all ranks, bit for bit."""

    def gather(self, value: Any) -> list[Any]:
        """What each rank has: plain data, by rank."""
        return [value]


ALONE = Ranks()


class JoinedRanks(Ranks):
    def __init__(self, rank: Rank, device: str) -> None:
        """Waits for all ranks. `device` is "cpu" or "cuda". Raises Refused where this rank has no card of its own, and
        LostRanks."""
        import torch.distributed as distributed

        # Refuses CUDA where it cannot be used.
        if choose_device(device).type == "cuda":
            # A launcher may let each rank see its own card alone.
            torch.cuda.set_device(rank.local if rank.local < torch.cuda.device_count() else 0)
        self.world, self.local_world, self._number = rank.world, rank.local_world, rank.number
        self.first = rank.first
        self._distributed = distributed
        self._backend: Backend | None = None
        # Sums of a card's tensors are NCCL's. *Not run on CUDA.*
        kind = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
        try:
            distributed.init_process_group(kind, timeout=MEET, rank=rank.number, world_size=rank.world)
            self._control = distributed.new_group(backend="gloo", timeout=WAIT)
            self._data = distributed.new_group(backend=kind, timeout=WAIT)
        except Exception as error:
            raise LostRanks(f"the ranks of the learner do not find each other ({_line(error)})") from error
        if device == "cuda":
            self._check_cards()

    def _check_cards(self) -> None:
        cards = self.gather(str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid))
        if len(set(cards)) < self.world:
            raise _told(
                Refused(
                    f"--learner-launch starts {self.world} ranks, which have {len(set(cards))} GPUs: each needs one of "
                    "its own; start fewer, or let hone see more (CUDA_VISIBLE_DEVICES)"
                )
            )

    def attach(self, backend: Backend) -> None:
        self._backend = backend

    def together(self, name: str, work: Callable[[], Result]) -> Result:
        failure: Exception | None = None
        try:
            result = work()
        except LostRanks:
            raise
        except Exception as error:
            if _is_told(error):
                raise
            if _follows_told(error):
                raise LostRanks(f"rank {self._number} failed while it undid an update: {_line(error)}") from error
            failure = error
        self._agree(name, failure)
        return result

    def plan(self, backend: Backend, trajectories: list[BatchSequence], budget: int) -> tuple[list[Pack], list[Pack]]:
        cost = row_cost(backend)
        packs = plan_for(self.world, trajectories, budget, backend.shares, cost)
        own = dealt([cost(pack) for pack in packs], self.world)[self._number]
        return packs, [packs[number] for number in own]

    @torch.no_grad()
    def collect(self, values: Sequence[torch.Tensor], own: Sequence[Pack], slots: torch.Tensor) -> None:
        part = torch.zeros(len(values), len(values[0]), dtype=values[0].dtype, device=values[0].device)
        for pack in own:
            at = pack.slots.to(part.device)
            for row, one in zip(part, values, strict=True):
                row[at] = one[at]
        self._sum(part)
        at = slots.to(part.device)
        for row, one in zip(part, values, strict=True):
            one[at] = row[at]

    @torch.no_grad()
    def add_up(self, parameters: list[torch.nn.Parameter], value: float) -> float:
        # A rank without rows has no gradients.
        there = torch.tensor([value, *(float(one.grad is not None) for one in parameters)], dtype=torch.float64)
        self._sum(there)
        with_gradient = [one for one, count in zip(parameters, there[1:].tolist(), strict=True) if count]
        for some in _buckets(with_gradient):
            parts = [torch.zeros_like(one) if one.grad is None else one.grad for one in some]
            flat = torch.cat([part.flatten() for part in parts])
            self._sum(flat)
            for one, part, summed in zip(some, parts, flat.split([part.numel() for part in parts]), strict=True):
                one.grad = part.copy_(summed.view_as(part))
        return float(there[0])

    @torch.no_grad()
    def check_same(self, tensors: Callable[[], list[torch.Tensor]]) -> None:
        mine = digest(tensors())
        numbers = torch.tensor([mine, -mine])
        self._largest(numbers, "check")
        if int(numbers[0]) != -int(numbers[1]):
            raise Refused(
                "the ranks of the learner have different adapters or optimizers after an update, which is not taken: "
                "the same command goes on from the last checkpoint; without --learner-launch one process computes"
            )

    def gather(self, value: Any) -> list[Any]:
        text = json.dumps(value).encode()
        lengths = torch.zeros(self.world, dtype=torch.long)
        lengths[self._number] = len(text)
        self._largest(lengths, "lengths")
        texts = torch.zeros(self.world, int(lengths.max()), dtype=torch.uint8)
        texts[self._number, : len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        self._largest(texts, "texts")
        return [json.loads(bytes(row[:length].tolist())) for row, length in zip(texts, lengths.tolist(), strict=True)]

    def _agree(self, name: str, failure: Exception | None) -> None:
        """Exchanges how the work went, which work it was, and which ways of computing failed."""
        code, tag = _code(failure), zlib.crc32(name.encode())
        rows = getattr(self._backend, "rows", None)
        left = [] if rows is None else [int(one) for one in rows.failed()]
        told = torch.tensor([code, tag, -tag, *(0 for _ in left)] if failure else [0, tag, -tag, *left])
        self._largest(told, name)
        code, highest, lowest, *left = told.tolist()
        if code == FINE and highest != -lowest:
            raise LostRanks(f"rank {self._number} is at another point of the update than other ranks ({name})")
        if rows is not None:
            rows.leave(self._backend, [bool(one) for one in left])
        if code == FINE:
            return
        said = self.gather(None if failure is None or _code(failure) < code else _words(failure))
        if failure is not None and _code(failure) == code:
            raise _told(failure)
        rank = next(number for number, one in enumerate(said) if one is not None)
        words = f"rank {rank}: {said[rank]}" if code in (MEMORY, FAILED) else said[rank]
        raise _told(_error(code, words)) from failure

    def _sum(self, tensor: torch.Tensor) -> None:
        operation = self._distributed.ReduceOp.SUM
        # All are here: `together` came before.
        self._reduce("sum", tensor, operation, self._data)

    def _largest(self, tensor: torch.Tensor, name: str) -> None:
        """Maximum over the ranks, in place. On the CPU."""
        self._reduce(name, tensor, self._distributed.ReduceOp.MAX, self._control)

    def _reduce(self, name: str, tensor: torch.Tensor, operation: Any, group: Any) -> None:
        try:
            self._distributed.all_reduce(tensor, operation, group, async_op=True).wait(WAIT)
        except Exception as error:
            raise LostRanks(f"rank {self._number} has lost the others at `{name}`: {_line(error)}") from error


def join(rank: Rank, device: str) -> Ranks:
    """ALONE where the rank is the only one: then nothing of torch.distributed is used."""
    return ALONE if rank.world == 1 else JoinedRanks(rank, device)


def digest(tensors: list[torch.Tensor]) -> int:
    """A number of 62 bits; another one where a number of a tensor is another, whatever it is."""
    sums = []
    for tensor in tensors:
        bits = tensor.detach().contiguous().flatten()
        bits = bits.view(torch.int32 if bits.element_size() % 4 == 0 else torch.uint8)
        total = torch.zeros((), dtype=torch.long, device=bits.device)
        for start in range(0, len(bits), BUCKET):
            part = bits[start : start + BUCKET].long()
            # Odd factors, modulo 2^64: a change of one number always shows, and an exchange of two.
            factors = torch.arange(2 * start + 1, 2 * (start + len(part)) + 1, 2, device=part.device)
            total += (part * factors).sum()
        sums.append(total.cpu())
    whole = 0
    for one in sums:
        whole = (whole * 1_000_003 + int(one)) % 2**62
    return whole


def _buckets(parameters: list[torch.nn.Parameter]) -> list[list[torch.nn.Parameter]]:
    """Parameters of one type with BUCKET numbers together; a larger one is alone."""
    buckets: list[list[torch.nn.Parameter]] = []
    room = 0
    for one in parameters:
        if not buckets or one.numel() > room or one.dtype != buckets[-1][0].dtype:
            buckets.append([])
            room = BUCKET
        buckets[-1].append(one)
        room -= one.numel()
    return buckets


def _code(failure: BaseException | None) -> int:
    if failure is None:
        return FINE
    if isinstance(failure, Repeat):
        return REPEAT
    if isinstance(failure, Refused):
        return REFUSED
    return MEMORY if is_out_of_memory(failure) else FAILED


def _words(failure: BaseException) -> str:
    return str(failure) if isinstance(failure, Refused) else f"{type(failure).__name__}: {_line(failure)}"


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def _error(code: int, words: str) -> Exception:
    """What another rank has raised."""
    kinds: dict[int, type[Exception]] = {REPEAT: Repeat, REFUSED: Refused, MEMORY: MemoryError, FAILED: RuntimeError}
    return kinds[code](words)


def _told(error: Exception) -> Exception:
    """Marks what all ranks raise. Nothing refers to the error itself: its frames hold an update's results."""
    error.__dict__[TOLD] = True
    return error


def _is_told(error: BaseException) -> bool:
    return TOLD in error.__dict__


def _follows_told(error: BaseException) -> bool:
    """Whether it was raised while such an error was handled."""
    one: BaseException | None = error
    while one is not None:
        if _is_told(one):
            return True
        one = one.__cause__ or one.__context__
    return False
