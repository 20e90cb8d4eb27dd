"""The adapter that an update computes with, beside the one that the engine plays.

An engine plays the file of the checkpoint in force, in f32 or with both factors or A alone rounded to 16 bits. What
that leaves of some layers' factors is computed here apart from as_played.py, by NumPy, and compared with the numbers in
the model while the update computes with them; other layers in each step. hone then asks whether the type is the
engine's.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy
import torch
from safetensors import safe_open

from .check_clock import timed
from .copies import on_host
from .errors import Refused
from .fused_weights import ADAPTER, adapted, factors_of

LAYERS = 2
"""That are looked at in a step."""
ROUNDING = 1e-6
"""Relative difference of rounded numbers: B is multiplied by the scale and divided again, in f32."""


class InForce:
    """Factors of some layers of the adapter in force: of the checkpoint's file, or of a new adapter's first numbers."""

    @timed
    def __init__(self, model: torch.nn.Module, checkpoint: str | None, number: int) -> None:
        """`number`: of the updates so far, which chooses the layers."""
        layers = adapted(model)
        chosen = [layers[(LAYERS * number + one) % len(layers)] for one in range(min(LAYERS, len(layers)))]
        self._layers: dict[str, tuple[torch.nn.Parameter, torch.nn.Parameter, float]] = {}
        factors: dict[str, torch.nn.Parameter] = {}
        for name, module in chosen:
            of_layer = factors_of(name, module)
            self._layers[name] = (*of_layer.values(), float(module.scaling[ADAPTER]))
            factors |= of_layer
        self._stored = _of_file(Path(checkpoint), list(factors)) if checkpoint else _copied(factors.values())

    @timed
    def types(self) -> list[str]:
        """To which the numbers in the model are those in force, rounded: "f32", where they are the same, "f16",
        "bf16", or A alone "f16-a", "bf16-a".

        Raises Refused where they are to none.
        """
        factors = [factor for a, b, _ in self._layers.values() for factor in (a, b)]
        now = [one.float().numpy() for one in on_host(factors)]
        fitting = dict.fromkeys(("f32", "f16", "bf16", "f16-a", "bf16-a"), True)
        for number, (name, (_, _, scaling)) in enumerate(self._layers.items()):
            stored, found = self._stored[2 * number : 2 * number + 2], now[2 * number : 2 * number + 2]
            of_layer = [kind for kind in fitting if _are(found, stored, scaling, kind)]
            if not of_layer:
                raise Refused(f"the update would compute with another adapter of {name} than the checkpoint has")
            fitting = {kind: fits and kind in of_layer for kind, fits in fitting.items()}
        return [kind for kind, fits in fitting.items() if fits]


def _of_file(checkpoint: Path, names: list[str]) -> list[numpy.ndarray]:
    with safe_open(checkpoint / "adapter" / "adapter_model.safetensors", framework="pt") as file:
        return [file.get_tensor(name).float().numpy() for name in names]


def _copied(factors: Iterable[torch.nn.Parameter]) -> list[numpy.ndarray]:
    return [one.float().numpy().copy() for one in on_host(factors)]


def _are(found: list[Any], stored: list[Any], scaling: float, kind: str) -> bool:
    if kind == "f32":
        return all(map(numpy.array_equal, found, stored))
    a, b = stored
    if kind.endswith("-a"):
        rounded_a = _rounded(a, kind.removesuffix("-a"))
        return numpy.array_equal(found[1], b) and numpy.allclose(found[0], rounded_a, rtol=ROUNDING, atol=0)
    scale = numpy.float32(scaling)
    rounded = _rounded(a, kind), _rounded(_rounded(b, kind) * scale, kind) / scale
    return all(numpy.allclose(one, other, rtol=ROUNDING, atol=0) for one, other in zip(found, rounded, strict=True))


def _rounded(values: numpy.ndarray, kind: str) -> numpy.ndarray:
    """To the nearest number of 16 bits, of two that are as near to the even one."""
    if kind == "f16":
        return values.astype(numpy.float16).astype(numpy.float32)
    bits = numpy.ascontiguousarray(values).view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(numpy.uint32).view(numpy.float32)
