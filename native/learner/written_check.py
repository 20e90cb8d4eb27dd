"""What an update has written: Adam's step, its moments and the checkpoint's files, each checked by another way than the
one that made it.

Each of these would go on from something else, or give the engine another adapter, without an error. All raise Refused:
the step is not taken.
"""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy
import torch
from peft import PeftModel
from safetensors.torch import load_file

from .architectures import LAYERS, interleave_heads, is_interleaved
from .check_clock import timed
from .copies import on_host
from .errors import Refused
from .fused_weights import ADAPTER, adapted, adapter_of
from .gguf_adapter import PEFT_TENSOR, Base
from .gguf_header import HeaderReader
from .probe import FILE as PROBE
from .request import AdamSettings

SAME = 1e-5
"""Relative difference of an adapter's products in f64 from two copies in f32, some 80 roundings."""
UPDATE = 1e-3
"""The same of an update of Adam, of which f32 keeps fewer digits where the moments are small."""
MOMENTS = 1e-5
"""The same of the moments after it: bf16 would leave 1e-3."""
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
    adapter = adapter_of(model)
    factors = dict(zip(adapter, on_host(adapter.values()), strict=True))
    _check_same("adapter_model.safetensors", load_file(path / "adapter/adapter_model.safetensors"), factors)
    _check_engines(path / "adapter.gguf", model, base, factors)
    # This process has just written it. The restricted unpickler, or a file that is not mapped, takes twice as long.
    stored = torch.load(path / "optimizer.pt", map_location="cpu", weights_only=False, mmap=True)
    _check_same("optimizer.pt", stored, optimizer)
    if probe is not None:
        _check_same(PROBE, json.loads((path / PROBE).read_text()), probe)


@timed
def check_resumed(path: Path, model: PeftModel, optimizer: dict[str, Any]) -> None:
    """A learner that goes on has the adapter, moments and counts of the checkpoint's files, read again. `optimizer`:
    as in `check_files`."""
    now = dict(adapter_of(model))
    # Another program may have written them in 16 bits, which the learner's have exactly.
    written = load_file(path / "adapter/adapter_model.safetensors")
    stored = {name: one.to(now[name].dtype) if name in now else one for name, one in written.items()}
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
    return all(_equal(stored.numpy(), one.numpy()) for (stored, _), one in zip(pairs, ours, strict=True))


def _equal(stored: numpy.ndarray, now: numpy.ndarray) -> bool:
    """Where all numbers are: a NaN is not. PyTorch would wake all its threads for each of a thousand tensors, and
    NumPy's `all` is written in Python."""
    return stored.shape == now.shape and numpy.count_nonzero(stored == now) == stored.size


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


def _check_engines(file: Path, model: PeftModel, base: Base, factors: dict[str, torch.Tensor]) -> None:
    """llama.cpp adds alpha / rank · B·A·x to a layer's output: the same factors as PEFT's layers have, or else that
    product of a random x, against theirs. `factors`: of PEFT's layers, as `adapter_of`, on the CPU."""
    reader = HeaderReader(file)
    tensors = {one.name: one.data for one in reader.tensors}
    alpha = reader.fields[gguf.Keys.Adapter.LORA_ALPHA].contents()
    generator = torch.Generator().manual_seed(0)
    layers = adapted(model)
    if len(tensors) != 2 * len(layers):
        raise Refused(f"{file.name} of the checkpoint has {len(tensors)} tensors for {len(layers)} layers")
    for name, module in layers:
        # As a parameter of it would be named in the checkpoint.
        _, block, layer, _ = PEFT_TENSOR.fullmatch(f"{name}.lora_A.weight").groups()
        of = f"blk.{block}.{LAYERS[layer]}.weight.lora_"
        ours_a, ours_b = factors[f"{name}.lora_A.weight"], factors[f"{name}.lora_B.weight"]
        scaling = float(module.scaling[ADAPTER])
        turned = is_interleaved(base.architecture, layer)
        heads = base.heads if layer.endswith("q_proj") else base.kv_heads
        a, b = tensors[f"{of}a"], tensors[f"{of}b"]
        rows = interleave_heads(ours_b, heads) if turned else ours_b
        if alpha / len(a) == scaling and _equal(a, ours_a.numpy()) and _equal(b, rows.numpy()):
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
