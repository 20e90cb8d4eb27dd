"""What an update is computed from, and what it did and wrote, checked by another way than the one that made it.

Each of these would teach something else, or give the engine another adapter, without an error. All raise Refused: the
step is not taken.
"""

import functools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import gguf
import numpy
import torch
from peft import PeftModel
from safetensors.torch import load_file

from .architectures import LAYERS, interleave_heads, is_interleaved
from .batch import Batch, BatchSequence
from .copies import on_host
from .errors import Refused
from .fused_weights import ADAPTER, adapted, adapter_of
from .gguf_adapter import PEFT_TENSOR, Base
from .gguf_header import HeaderReader
from .packing import Pack
from .probe import FILE as PROBE
from .request import AdamSettings, Lora, StepRequest

SAME = 1e-5
"""Relative difference of an adapter's products in f64 from two copies in f32, some 80 roundings."""
UPDATE = 1e-3
"""The same of an update of Adam, of which f32 keeps fewer digits where the moments are small."""
MOMENTS = 1e-5
"""The same of the moments after it: bf16 would leave 1e-3."""


class Spent:
    """What the checks of this process took so far."""

    seconds: ClassVar[float] = 0.0


def timed(check: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(check)
    def measured(*given: Any, **by_name: Any) -> Any:
        started = time.monotonic()
        try:
            return check(*given, **by_name)
        finally:
            Spent.seconds += time.monotonic() - started

    return measured


@timed
def check_rows(packs: list[Pack], trajectories: list[BatchSequence]) -> None:
    """Every sampled token is predicted once, by the position before it, which sees the trajectory up to there and
    nothing else: by the mask (`ends`) and by the segments."""
    found = torch.cat([pack.slots for pack in packs]).sort().values
    wanted = torch.cat([_slots(one) for one in trajectories]).sort().values
    if not torch.equal(found, wanted):
        raise Refused(f"the rows of an update have {len(found)} sampled tokens, not each of {len(wanted)} once")
    lasts = {int(_slots(one)[-1]): one for one in trajectories if one.sampled.any()}
    for pack in packs:
        of_slot = {slot: index for index, slot in enumerate(pack.slots.tolist())}
        for trajectory in (lasts[slot] for slot in of_slot if slot in lasts):
            _check_path(pack, trajectory, torch.tensor([of_slot[slot] for slot in _slots(trajectory).tolist()]))


WEIGHED = 1e-5
"""Relative difference of a token's weight in f32 that is rounding."""


@timed
def check_scales(
    scales: torch.Tensor, of_rollout: torch.Tensor, updates: list[torch.Tensor], request: StepRequest
) -> None:
    """Each token weighs in the mean of its update what the objective gives it, by the tokens of its rollout.

    `scales` and `of_rollout` (each token's) are [S of the batch]; `updates`: the tokens of each update.
    """
    whole = len(of_rollout.unique())
    rollouts = whole if request.rollouts is None else request.rollouts
    tokens = len(of_rollout) if request.sampled_tokens is None else request.sampled_tokens
    for slots in updates:
        of, counts = of_rollout[slots].unique(return_inverse=True, return_counts=True)[1:]
        # Rollouts of the step that are not in the batch are shared among its updates.
        played = rollouts * len(counts) / whole
        divisors = {
            "tokens": torch.full(counts.shape, tokens * len(slots) / len(of_rollout), dtype=torch.float64),
            "sequences": counts.double() * played,
            "constant": torch.full(counts.shape, played * (request.max_completion_tokens or 1), dtype=torch.float64),
        }[request.objective.normaliser]
        # A comparison with NaN is false.
        if not ((scales[slots] * divisors[of] - 1).abs() <= WEIGHED).all():
            raise Refused(
                "tokens do not weigh in the mean of an update what their rollouts and the objective "
                f"{request.objective.name} give them"
            )


def _slots(trajectory: BatchSequence) -> torch.Tensor:
    return torch.arange(trajectory.first_slot, trajectory.first_slot + int(trajectory.sampled.sum()))


def _check_path(pack: Pack, trajectory: BatchSequence, own: torch.Tensor) -> None:
    """`own`: indices of the trajectory's tokens in the row."""
    sampled = trajectory.sampled.nonzero().flatten()
    predicting = pack.predicting[pack.sources[own]]
    last, length = int(predicting[-1]), int(sampled[-1])
    path = (pack.ends[: last + 1] > last).nonzero().flatten()
    fits = (
        torch.equal(pack.ids[path], trajectory.ids[:length])
        and torch.equal(pack.positions[path], torch.arange(length))
        and torch.equal(predicting, path[sampled - 1])
        and torch.equal(pack.targets[own], trajectory.ids[sampled])
        and (trajectory.allowed is None or torch.equal(_sets(pack)[pack.sources[own]], trajectory.allowed[sampled]))
        and torch.equal(_by_segments(pack, last), path)
    )
    if not fits:
        raise Refused(
            f"a row of an update has the trajectory with the tokens from {trajectory.first_slot} on with other ids, "
            "positions, predecessors or allowed tokens than its own"
        )


def _sets(pack: Pack) -> torch.Tensor:
    return torch.full_like(pack.predicting, -1) if pack.allowed is None else pack.allowed


def _by_segments(pack: Pack, last: int) -> torch.Tensor:
    """Positions that `last` continues, itself included."""
    start = 0
    for segment in pack.segments:
        if last < start + segment.length:
            return torch.cat([torch.arange(*part) for part in (*segment.before, (start, last + 1))])
        start += segment.length
    return torch.empty(0, dtype=torch.long)


@timed
def check_tokens(trained: torch.Tensor, times: int) -> None:
    """After the updates of a step: its tokens' gradients [S] were added as often as it has epochs, whatever its updates
    and rows are."""
    other = int((trained != times).sum())
    if other:
        raise Refused(f"the gradients of {other} of the step's {len(trained)} tokens were not added {times} times each")


@timed
def check_old(old: torch.Tensor, first: torch.Tensor) -> None:
    """After the updates of a step: log-probabilities under π_old [S] are still those of the `first` time."""
    if not torch.equal(old, first):
        raise Refused("log-probabilities of the policy before the step were made anew between its updates")


MOVES, SLOPE = 1e-9, 1e-4
"""A learning rate and a gradient's norm from which on an update moves the policy: Adam's step has the size of the rate
whatever the gradient is, and of a million numbers some are rounded otherwise."""
ADAPTED = 1e-6
"""Largest number of an adapter's B from which on it moves the policy."""


@timed
def check_ratios(same: list[bool], learning_rate: float, first_norm: float) -> None:
    """After the updates of a step: `same` says of each but the first whether the policy's log-probabilities were those
    of π_old, to the last bit."""
    if same and all(same) and learning_rate >= MOVES and first_norm >= SLOPE:
        raise Refused(
            f"the ratio of the policy to the one before the step was exactly 1 in all of {len(same)} updates after the "
            "first: the updates of the step do not move the policy"
        )


@timed
def check_base(model: torch.nn.Module, is_base: bool) -> None:
    """Before the first update of a step: its policy is not the base model's, to the last bit, where its adapter is not
    0."""
    if not is_base:
        return
    largest = [one.detach().abs().amax() for name, one in model.named_parameters() if ".lora_B." in name]
    if largest and float(torch.stack(largest).amax()) > ADAPTED:
        raise Refused(
            "the policy is the base model, with a KL divergence of exactly 0, though its adapter is not 0: one of "
            "the two was computed as the other"
        )


TOGETHER = {"f32": 2e-3, "f16": 0.02, "bf16": 0.3}
"""Mean difference in nats of a rollout's tokens, computed in a row with others and in one of its own. Siblings that see
each other were at 0.044, positions that go on after a fork at 0.15."""


@timed
def check_apart(together: torch.Tensor, alone: torch.Tensor, precision: str) -> None:
    """Log-probabilities [n] of one rollout's tokens before the update."""
    apart = float((together - alone).abs().mean())
    # A comparison with NaN is false.
    if not apart <= TOGETHER[precision]:
        raise Refused(
            f"a rollout has other log-probabilities in an update's row than in a row of its own: by {apart:.2g} nats "
            f"on average (limit {TOGETHER[precision]:g}, {precision})"
        )


@timed
def check_count(found: int, wanted: int) -> None:
    """Of a step's updates."""
    if found != wanted:
        raise Refused(f"a step of {wanted} updates has made {found}")


@timed
def check_asked(batch: Batch, request: StepRequest) -> None:
    """What the batch says of itself is what the request says of it."""
    if request.temperature is not None and batch.temperature != request.temperature:
        raise Refused(
            f"the learner would train at temperature {batch.temperature:g} what was sampled at {request.temperature:g}"
        )


@timed
def check_adapter(found: str | None, wanted: str | None) -> None:
    """By the digests of their files: the adapter that the learner has is the one to go on from; None: a new one."""
    if wanted not in ("", found):
        raise Refused(f"the learner would go on from {_adapter(found)}, and the run stands at {_adapter(wanted)}")


def _adapter(digest: str | None) -> str:
    return "a new adapter" if digest is None else f"the adapter {digest[:12]}"


@timed
def check_scaled(model: torch.nn.Module, lora: Lora) -> None:
    """The adapter's output is scaled as asked."""
    wanted = lora.alpha / lora.rank
    for name, module in adapted(model):
        if module.scaling[ADAPTER] != wanted:
            raise Refused(f"the adapter of {name} is scaled by {module.scaling[ADAPTER]:g}, not by {wanted:g}")


@timed
def check_trained(model: torch.nn.Module, parameters: list[torch.nn.Parameter]) -> None:
    """Before an update: all of the adapter is trained, and nothing is dropped at random."""
    trained = {id(parameter) for parameter in parameters}
    for name, parameter in adapter_of(model).items():
        if not (parameter.requires_grad and id(parameter) in trained):
            raise Refused(f"the update would leave {name} as it is: it is not trained")
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Dropout) and module.p > 0 and module.training:
            raise Refused(f"the model has dropout in {name}: the engine's policy has none")


@timed
def check_clear(parameters: list[torch.nn.Parameter]) -> None:
    """Before the rows of each update: no gradient is left."""
    if any(parameter.grad is not None for parameter in parameters):
        raise Refused("gradients of an earlier update are left: they would be added to this one's")


NEAR = 4
"""Parameters that are looked at for one with a gradient: for each of them the host waits for the device."""


def f64(tensor: torch.Tensor) -> torch.Tensor:
    """A copy, also of what has 64 bits: Adam writes into its own tensors."""
    return tensor.to(torch.float64, copy=True)


class _Watched:
    """A parameter before a step of Adam, in f64."""

    def __init__(self, parameter: torch.nn.Parameter, state: dict[str, Any]) -> None:
        self.parameter, self.before, self._gradient = parameter, f64(parameter.detach()), f64(parameter.grad)
        zero = torch.zeros((), dtype=torch.float64)
        self._mean, self._square = (
            f64(state[name]) if name in state else zero.to(self.before.device) for name in ("exp_avg", "exp_avg_sq")
        )
        self._step = int(state["step"]) + 1 if "step" in state else 1

    def after(
        self, settings: AdamSettings, epsilon: float, learning_rate: float
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """What the step makes of it, and of its moments."""
        first, second = settings.betas
        mean = first * self._mean + (1 - first) * self._gradient
        square = second * self._square + (1 - second) * self._gradient**2
        change = mean / (1 - first**self._step) / ((square / (1 - second**self._step)).sqrt() + epsilon)
        weights = self.before * (1 - learning_rate * settings.weight_decay) - learning_rate * change
        return weights, {"exp_avg": mean, "exp_avg_sq": square}


class AdamStep:
    """Adam's step of two parameters, others in each update, in f64 from their gradients, moments and weights before
    (Loshchilov and Hutter 2019, arXiv 1711.05101, algorithm 2)."""

    @timed
    def __init__(
        self,
        adam: torch.optim.Optimizer,
        parameters: list[torch.nn.Parameter],
        number: int,
        settings: AdamSettings,
    ) -> None:
        start = number % len(parameters)
        near = [one for one in (parameters[start:] + parameters[:start])[:NEAR] if one.grad is not None]
        # A new adapter's A has a gradient of 0, since its B is 0: only its decay shows.
        moved = next((one for one in near if one.grad.any()), None)
        watched = {id(one): one for one in (*near[:1], moved) if one is not None}
        self._watched = [_Watched(one, adam.state.get(one, {})) for one in watched.values()]
        self._adam, self._settings, self._epsilon = adam, settings, adam.param_groups[0]["eps"]

    @timed
    def check(self, learning_rate: float) -> None:
        """After the step."""
        for one in self._watched:
            wanted, moments = one.after(self._settings, self._epsilon, learning_rate)
            apart, moved = one.parameter.detach().double() - wanted, (wanted - one.before).norm()
            rounding = torch.finfo(one.parameter.dtype).eps * wanted.norm()
            limit = UPDATE * moved + rounding
            # Decay is little beside the step, and in the direction of the weights, in which rounding has little.
            length = one.before.norm()
            along = (apart * one.before).sum().abs() / length.clamp(min=1e-300)
            limit_along = learning_rate * self._settings.weight_decay / 2 * length + 4 * limit / apart.numel() ** 0.5
            state = self._adam.state.get(one.parameter, {})
            if not moments.keys() <= state.keys():
                raise Refused("the update of a parameter by Adam was not made: it has left no moments")
            lost = torch.stack([_lost(state[name], value) for name, value in moments.items()]).amax()
            # The host waits for the device once.
            found, most, found_along, most_along, most_lost = torch.stack(
                (apart.norm(), limit, along, limit_along, lost)
            ).tolist()
            # How a card rounds moments has not been measured.
            if one.parameter.device.type == "cpu" and not most_lost <= MOMENTS:
                raise Refused(
                    "the update of a parameter by Adam leaves other moments than its gradient and those before give: "
                    f"{most_lost:.2g} of them apart"
                )
            if not (found <= most and found_along <= most_along):
                raise Refused(
                    f"the update of a parameter by Adam is not what its gradient, moments and the learning rate "
                    f"{learning_rate:g} give: {found:.2g} apart, of {float(moved):.2g}"
                )


def _lost(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Of a moment: how far apart, as a share of it. Numbers that f32 has as 0 do not count."""
    rounding = torch.finfo(found.dtype).tiny * found.numel() ** 0.5 / MOMENTS
    return (found.double() - wanted).norm() / (wanted.norm() + rounding)


@timed
def check_kept(kept: dict[str, Any], now: dict[str, Any]) -> None:
    """Moments of a parameter are those that the update before left. `kept`: a copy of that time, of any device."""
    if not _same(dict(zip(kept, on_host(kept.values()), strict=True)), now):
        raise Refused("Adam's moments of a parameter are not those that the update before left")


@timed
def check_files(
    path: Path, model: PeftModel, base: Base, optimizer: dict[str, Any], probe: dict[str, Any] | None
) -> None:
    """The checkpoint's files have the adapter, the optimizer's state and the probe. `optimizer`: that state now, with
    the tensors that Adam itself goes on with."""
    _check_same("adapter_model.safetensors", load_file(path / "adapter/adapter_model.safetensors"), adapter_of(model))
    _check_engines(path / "adapter.gguf", model, base)
    # This process has just written it; the restricted unpickler takes twice as long.
    stored = torch.load(path / "optimizer.pt", map_location="cpu", weights_only=False)
    _check_same("optimizer.pt", stored, optimizer)
    if probe is not None:
        _check_same(PROBE, json.loads((path / PROBE).read_text()), probe)


@timed
def check_resumed(path: Path, model: PeftModel, optimizer: dict[str, Any]) -> None:
    """A learner that goes on has the adapter, moments and counts of the checkpoint's files, read again. `optimizer`:
    as in `check_files`."""
    stored = load_file(path / "adapter/adapter_model.safetensors")
    now = dict(adapter_of(model))
    if (path / "optimizer.pt").exists():
        saved = torch.load(path / "optimizer.pt", map_location="cpu", weights_only=True)
        # Settings of Adam are those of now.
        stored |= {"moments": saved["adam"]["state"], "updates": saved["updates"], "random": saved["random"]}
        now |= {"moments": optimizer["adam"]["state"], "updates": optimizer["updates"], "random": optimizer["random"]}
    if not _same(stored, now):
        raise Refused(f"the learner has not the adapter, moments and counts of {path}, from which it was to go on")


def _check_same(file: str, stored: Any, now: Any) -> None:
    if not _same(stored, now):
        raise Refused(f"{file} of the checkpoint has not what was written to it: the state after this update")


def _same(stored: Any, now: Any) -> bool:
    pairs: list[tuple[torch.Tensor, torch.Tensor]] = []
    if not _alike(stored, now, pairs):
        return False
    ours = on_host(now for _, now in pairs)
    return all(_equal(stored.numpy(), one) for (stored, _), one in zip(pairs, ours, strict=True))


def _equal(stored: numpy.ndarray, now: torch.Tensor) -> bool:
    """By NumPy: PyTorch would wake all its threads for each of a thousand tensors."""
    return numpy.array_equal(stored, now.numpy())


def _alike(stored: Any, now: Any, pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> bool:
    """But for the values of tensors of the same shapes and types, which `pairs` gets."""
    if isinstance(now, torch.Tensor):
        pairs.append((stored, now))
        return isinstance(stored, torch.Tensor) and (stored.shape, stored.dtype) == (now.shape, now.dtype)
    if isinstance(now, dict):
        return stored.keys() == now.keys() and all(_alike(stored[name], value, pairs) for name, value in now.items())
    if isinstance(now, list | tuple):
        return len(stored) == len(now) and all(_alike(*pair, pairs) for pair in zip(stored, now, strict=True))
    return stored == now


@torch.no_grad()
def _check_engines(file: Path, model: PeftModel, base: Base) -> None:
    """llama.cpp adds alpha / rank · B·A·x to a layer's output: the same factors as PEFT's layers have, or else that
    product of a random x, against theirs."""
    reader = HeaderReader(file)
    tensors = {one.name: one.data for one in reader.tensors}
    alpha = reader.fields[gguf.Keys.Adapter.LORA_ALPHA].contents()
    generator = torch.Generator().manual_seed(0)
    layers = dict(adapted(model))
    if len(tensors) != 2 * len(layers):
        raise Refused(f"{file.name} of the checkpoint has {len(tensors)} tensors for {len(layers)} layers")
    factors = on_host(part[ADAPTER].weight for one in layers.values() for part in (one.lora_A, one.lora_B))
    for number, (name, module) in enumerate(layers.items()):
        # As a parameter of it would be named in the checkpoint.
        _, block, layer, _ = PEFT_TENSOR.fullmatch(f"{name}.lora_A.weight").groups()
        of = f"blk.{block}.{LAYERS[layer]}.weight.lora_"
        ours_a, ours_b = factors[2 * number : 2 * number + 2]
        scaling = float(module.scaling[ADAPTER])
        turned = is_interleaved(base.architecture, layer)
        heads = base.heads if layer.endswith("q_proj") else base.kv_heads
        a, b = (tensors[f"{of}{letter}"] for letter in "ab")
        rows = interleave_heads(ours_b, heads) if turned else ours_b
        if alpha / len(a) == scaling and _equal(a, ours_a) and _equal(b, rows):
            continue
        a, b = (torch.from_numpy(one.copy()).double() for one in (a, b))
        ours_a, ours_b = ours_a.double(), ours_b.double()
        x = torch.randn(ours_a.shape[1], generator=generator, dtype=torch.float64)
        wanted = scaling * (ours_b @ (ours_a @ x))
        if turned:
            wanted = interleave_heads(wanted[:, None], heads)[:, 0]
        written = alpha / len(a) * (b @ (a @ x))
        if not float((written - wanted).norm()) <= SAME * float(wanted.norm()):
            raise Refused(
                f"{file.name}, which the engine loads, has not the adapter that was trained: {of[:-6]} differs by "
                f"{float((written - wanted).norm() / wanted.norm().clamp(min=1e-12)):.2g} of it"
            )
