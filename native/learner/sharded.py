"""A model whose weights are shared out over the ranks, for models that do not fit on one card.

PyTorch's FSDP2 (`fully_shard`) keeps a part of each weight on every rank: rows of it, an equal number on each. The
weights of a decoder layer are gathered before it computes and dropped afterwards, in the forward pass and again in the
backward pass, in which the gradients of all ranks are added up; each rank keeps those of its own part. The optimizer
sees the parts as parameters of their own.

Every gather needs all ranks, so all take the same steps in the same order, whatever their rows. FSDP2's hooks would
take them as a row is computed: a rank whose row fails would then leave the others waiting. Here a rank takes the steps
that its row has not come to afterwards (`_Steps.finish`), without computing: so does one that has no row. *Not run on
CUDA.*
"""

import datetime
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from .architectures import last_norm
from .errors import LostRanks, is_out_of_memory
from .memory import forget

Result = TypeVar("Result")
Sum = Callable[[torch.Tensor], None]

FORWARD, LEARNING = False, True
"""Kinds of passes: without and with a backward pass."""
BUCKET = 2**24
"""Numbers of parts that are gathered at once."""


class _Group:
    """Modules whose weights are gathered together."""

    def __init__(self, modules: list[torch.nn.Module], mesh: Any) -> None:
        # Imported where it is used: that takes its time.
        from torch.distributed.fsdp import fully_shard

        # It has replaced the parameters of the modules afterwards.
        fully_shard(modules, mesh=mesh)
        self._module: Any = modules[0]
        found: dict[int, tuple[torch.nn.Module, str]] = {}
        for module in modules:
            for owner in module.modules():
                for name, parameter in owner.named_parameters(recurse=False):
                    if parameter.requires_grad:
                        found.setdefault(id(parameter), (owner, name))
        self.places = list(found.values())
        """Module and name of each trained parameter, once."""
        self.whole: list[torch.nn.Parameter] = []
        """Those that gradients are added to: the same objects in every gather."""
        self.parts: list[torch.nn.Parameter] = []

    def begin_gather(self) -> None:
        self._module.unshard(async_op=True)

    def gather(self) -> None:
        # On other ranks they may have been dropped: all gather, or none.
        self._module.reshard()
        self._module.unshard()
        self.whole = [owner.get_parameter(name) for owner, name in self.places]

    def release(self) -> None:
        self._module.reshard()


class Sharding:
    def __init__(self, causal: Any, device: torch.device, group: Any, rank: int, world: int, add_up: Sum) -> None:
        """`causal`: a model of transformers, with adapters in it or not, in main memory; its rotary embeddings are
        moved as they are. `add_up` sums a tensor over the ranks of `group`, in place."""
        from torch.distributed.device_mesh import DeviceMesh

        mesh = DeviceMesh.from_group(group, device.type)
        decoder, output = causal.model, causal.lm_head
        table, norm = decoder.embed_tokens, last_norm(decoder)
        tied = table.weight is output.weight
        self._rank, self._world, self._group, self._add_up = rank, world, group, add_up
        self._layers = [_Group([layer], mesh) for layer in decoder.layers]
        self._first = _Group([table, norm, output] if tied else [table], mesh)
        self._last = self._first if tied else _Group([norm, output], mesh)
        self._groups = [self._first, *self._layers, *([] if tied else [self._last])]
        decoder.rotary_emb.to(device)
        self._steps: _Steps | None = None
        _call(table, self._embedded)
        _call(norm, self._normed)
        for one, layer in zip(self._layers, decoder.layers, strict=True):
            _call(layer, functools.partial(self._layer, one))

    def settle(self) -> None:
        """Must be called before all else, on all ranks: FSDP2 settles in a first gather where the parts are."""
        for group in self._groups:
            with self._losing_ranks():
                group.gather()
            group.release()
            for owner, name in group.places:
                shared = owner.get_parameter(name)
                part: Any = torch.nn.Parameter(shared.to_local().detach())
                part.part_of = shared
                group.parts.append(part)

    def parameters(self, model: torch.nn.Module) -> list[torch.nn.Parameter]:
        """This rank's parts of what is trained, in the order of the model's parameters."""
        of = {id(part.part_of): part for group in self._groups for part in group.parts}
        return [of[id(one)] for one in model.parameters() if one.requires_grad]

    def part(self, parameter: Any, whole: torch.Tensor) -> torch.Tensor:
        """The rows that this rank has of something of the shape of a parameter's whole. `parameter` is a part."""
        rows = _rows(len(whole), self._world)
        return whole[self._rank * rows : self._rank * rows + len(parameter)]

    def norm(self, own: torch.Tensor) -> torch.Tensor:
        """Norm of all gradients from that of this rank's parts. For all ranks."""
        square = own.double().square()
        self._add_up(square)
        return square.sqrt().to(own.dtype)

    @torch.no_grad()
    def wholes(self, parameters: Sequence[Any], parts: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """From tensors of the parameters' parts, such as moments, those of the whole, on the CPU. For all ranks; those
        that do not need it must ask all the same."""
        from torch import distributed

        found: list[torch.Tensor] = []
        for some in _buckets(parts):
            mine = [parts[number] for number in some]
            sizes = [_rows(len(parameters[number].part_of), self._world) * _width(parts[number]) for number in some]
            flat = torch.cat([_padded(part, size) for part, size in zip(mine, sizes, strict=True)])
            of_ranks = [torch.empty_like(flat) for _ in range(self._world)]
            with self._losing_ranks():
                distributed.all_gather(of_ranks, flat, group=self._group)
            split = [one.cpu().split(sizes) for one in of_ranks]
            for at, number in enumerate(some):
                shape = parameters[number].part_of.shape
                whole = torch.cat([pieces[at] for pieces in split])[: shape.numel()]
                found.append(whole.view(shape).clone())
        return found

    @contextmanager
    def holding(
        self, model: torch.nn.Module, parameters: Sequence[Any], wholes: Sequence[torch.Tensor]
    ) -> Iterator[None]:
        """Context in which the model has whole trained weights, for writing them."""
        whole = {id(part.part_of): torch.nn.Parameter(one) for part, one in zip(parameters, wholes, strict=True)}
        replaced = []
        for owner in model.modules():
            for name, shared in owner.named_parameters(recurse=False):
                if id(shared) in whole:
                    replaced.append((owner, name, shared))
        try:
            for owner, name, shared in replaced:
                owner._parameters[name] = whole[id(shared)]
            yield
        finally:
            for owner, name, shared in replaced:
                owner._parameters[name] = shared

    def set_timeout(self, seconds: float) -> None:
        """Of a gather, from now on."""
        from torch.distributed import distributed_c10d

        # As torchtitan does: there is no public function.
        distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=seconds), self._group)

    def passing(self, passes: Sequence[bool], work: Callable[[], Result] | None) -> Result | None:
        """What `work` returns, which computes rows with these passes, or with fewer. The steps are taken in any case:
        also without work, and where it fails, which is raised afterwards. Raises LostRanks."""
        steps = self._steps = _Steps(self, passes)
        failure: BaseException | None = None
        result = None
        try:
            result = None if work is None else work()
        except LostRanks:
            raise
        except BaseException as error:
            # Gathers need the memory that its frames hold.
            forget(error)
            failure = error
        finally:
            self._steps = None
        with self._losing_ranks():
            steps.finish()
        for group in self._groups:
            group.release()
        if failure is not None:
            raise failure
        return result

    @contextmanager
    def _losing_ranks(self) -> Iterator[None]:
        """Context in which an error means that the other ranks wait for this one, or it for them."""
        try:
            yield
        except LostRanks:
            raise
        except Exception as error:
            raise self.lost(error) from error

    def lost(self, error: Exception) -> LostRanks:
        """What an error of a collective operation means."""
        line = (str(error).splitlines() or [type(error).__name__])[0][:300]
        return LostRanks(f"rank {self._rank} has lost the others at `weights`: {line}")

    def _reach(self, gathers: bool, group: _Group) -> None:
        if self._steps is None:
            raise RuntimeError("a sharded model computes rows in `passing` alone")
        self._steps.reach(gathers, group)

    def _embedded(self, module: Any, ids: torch.Tensor) -> torch.Tensor:
        self._reach(True, self._first)
        found = module.forward(ids)
        self._first.release()
        return found

    def _normed(self, module: Any, hidden: torch.Tensor) -> torch.Tensor:
        # The output layer is used afterwards.
        self._reach(True, self._last)
        return module.forward(_Leave.apply(hidden, self, self._last) if hidden.requires_grad else hidden)

    def _layer(self, group: _Group, layer: Any, hidden: torch.Tensor, *others: Any, **named: Any) -> torch.Tensor:
        self._reach(True, group)
        if hidden.requires_grad:
            hidden = _Leave.apply(hidden, self, group)
        if layer.gradient_checkpointing and layer.training:
            found = layer._gradient_checkpointing_func(functools.partial(layer.forward, **named), hidden, *others)
        else:
            found = layer.forward(hidden, *others, **named)
        if found.requires_grad:
            found = _Enter.apply(found, self, group)
        group.release()
        return found

    @torch.no_grad()
    def _taken(self, group: _Group) -> torch.Tensor:
        """The gradients of the whole parameters, which have none any more."""
        gradients = [
            torch.zeros(one.part_of.shape, dtype=one.dtype, device=one.device) if whole.grad is None else whole.grad
            for one, whole in zip(group.parts, group.whole, strict=True)
        ]
        flat = torch.cat([one.flatten() for one in gradients])
        for one in group.whole:
            one.grad = None
        return flat

    @torch.no_grad()
    def _add(self, group: _Group, flat: torch.Tensor) -> None:
        """Adds such gradients to those of the parts."""
        shapes = [part.part_of.shape for part in group.parts]
        pieces = flat.split([shape.numel() for shape in shapes])
        for part, shape, piece in zip(group.parts, shapes, pieces, strict=True):
            own = self.part(part, piece.view(shape))
            part.grad = own.clone() if part.grad is None else part.grad.add_(own)


class _Steps:
    """What all ranks do together in some passes: gathers, and sums of gradients. The rest is each rank's own."""

    def __init__(self, sharding: Sharding, passes: Sequence[bool]) -> None:
        self._sharding = sharding
        self.steps: list[tuple[bool, _Group]] = []
        """(whether the group is gathered; else its gradients are summed, group)"""
        self.at = 0
        first, layers, last = sharding._first, sharding._layers, sharding._last
        for learns in passes:
            self.steps += [(True, group) for group in (first, *layers, last)]
            if learns:
                backward = [(False, last), *((kind, group) for group in reversed(layers) for kind in (True, False))]
                self.steps += [(kind, one) for kind, one in [*backward, (False, first)] if kind or one.places]

    def reach(self, gathers: bool, group: _Group) -> None:
        """Takes the next step, which must be this one."""
        if self.at == len(self.steps) or self.steps[self.at] != (gathers, group):
            raise RuntimeError("a sharded model computes its layers in another order than that of the gathers")
        self._take()

    def finish(self) -> None:
        """Takes the steps that are left."""
        while self.at < len(self.steps):
            gathers, group = self.steps[self.at]
            self._take()
            if gathers:
                group.release()

    def _take(self) -> None:
        gathers, group = self.steps[self.at]
        summed = torch.empty(0)
        try:
            if gathers:
                group.gather()
            else:
                summed = self._sharding._taken(group)
                self._sharding._add_up(summed)
        except LostRanks:
            raise
        except Exception as error:
            # Without memory it was not taken, and is taken again.
            if is_out_of_memory(error):
                raise
            raise self._sharding.lost(error) from error
        self.at += 1
        if gathers:
            self._look_ahead(group)
        else:
            self._sharding._add(group, summed)

    def _look_ahead(self, group: _Group) -> None:
        """The next gather takes its time while this group computes."""
        following = next((one for kind, one in self.steps[self.at :] if kind), None)
        if following is not None and following is not group:
            try:
                following.begin_gather()
            except Exception as error:
                # Its own turn comes.
                if not is_out_of_memory(error):
                    raise


class _Boundary(torch.autograd.Function):
    """Passes on what goes through it; something is done in the backward pass."""

    @staticmethod
    def forward(context: Any, states: torch.Tensor, sharding: Sharding, group: _Group) -> torch.Tensor:
        context.of = sharding, group
        return states.view_as(states)


class _Enter(_Boundary):
    """Behind a layer: gathers its weights in the backward pass."""

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        sharding, group = context.of
        sharding._reach(True, group)
        return gradient, None, None


class _Leave(_Boundary):
    """Before a layer: its gradients are there in the backward pass, and its weights not needed any more."""

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        sharding, group = context.of
        if group.places:
            sharding._reach(False, group)
        group.release()
        return gradient, None, None


def _call(module: Any, how: Callable[..., Any]) -> None:
    """Calls of the module are those of `how`, with the module before its arguments, and run no hooks of FSDP2."""

    def called(self: Any, *given: Any, **named: Any) -> Any:
        return how(self, *given, **named)

    kind = type(module)
    module.__class__ = type(kind.__name__, (kind,), {"__call__": called})


def _rows(total: int, world: int) -> int:
    """Of each rank; the last ones have fewer, or none."""
    return -(-total // world)


def _width(part: torch.Tensor) -> int:
    return part.shape[1:].numel()


def _padded(part: torch.Tensor, size: int) -> torch.Tensor:
    return torch.nn.functional.pad(part.detach().flatten(), (0, size - part.numel()))


def _buckets(parts: Sequence[torch.Tensor]) -> list[list[int]]:
    """Numbers of neighbours of one type, with about BUCKET numbers together."""
    buckets: list[list[int]] = []
    room = 0
    for number, part in enumerate(parts):
        if not buckets or part.numel() > room or part.dtype != parts[buckets[-1][0]].dtype:
            buckets.append([])
            room = BUCKET
        buckets[-1].append(number)
        room -= part.numel()
    return buckets
