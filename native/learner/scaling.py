"""Loss scaling for f16: gradients are computed multiplied by a power of two, so that small ones do not become 0.

f16 holds 6e-8 to 65504. As in mixed precision training (arXiv 1710.03740) and PyTorch's GradScaler the scale follows
the gradients: where one overflows it falls, and after many passes without that it rises. Unlike there no update is
lost: the pass is repeated. bf16 and f32 have the range of f32 and need none.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar

from .backend import Backend

FIRST = 2.0**16
LEAST = 1.0
FALL = 4.0
RISE = 2.0
PATIENCE = 50
"""Passes without overflow after which it rises."""


class LossScale:
    def __init__(self, precision: str) -> None:
        self._on = precision == "f16"
        self._value = FIRST
        self._clean = 0
        self._before: float | None = None
        """Where it has fallen since the last pass without overflow: from where."""

    @property
    def value(self) -> float:
        return self._value if self._on else 1.0

    def repeats(self, loss: float, norm: float) -> bool:
        """Takes note of a pass. True: it is to be repeated at the scale of now, which is lower.

        A loss that is not finite is no matter of the scale.
        """
        if not self._on:
            return False
        if math.isfinite(norm):
            self._clean += 1
            if self._clean >= PATIENCE:
                self._value, self._clean = self._value * RISE, 0
            self._before = None
            return False
        self._clean = 0
        if not math.isfinite(loss) or self._value <= LEAST:
            return False
        if self._before is None:
            self._before = self._value
        self._value = max(LEAST, self._value / FALL)
        return True

    def turn(self, on: bool) -> None:
        """Off where it is not f16 that computes."""
        self._on = on

    def take_back(self) -> None:
        """Undoes the falls since the last pass without overflow: they have not helped."""
        if self._before is not None:
            self._value, self._before = self._before, None

    def state(self) -> dict[str, Any]:
        return {"value": self._value, "clean": self._clean}

    def load(self, state: dict[str, Any]) -> None:
        self._value, self._clean = state["value"], state["clean"]


Result = TypeVar("Result")


def in_bf16(
    backend: Backend, scale: LossScale, again: Callable[[], Result], helped: Callable[[Result], bool]
) -> Result:
    """Does again in bf16 what was not finite in f16 at any scale.

    `again` has to checkpoint activations: autocast rounds the frozen weights for each product, and autograd would keep
    a second copy of all of them, for which no memory is planned.

    Stays there if that helped; otherwise the range of f16 was not the reason, and the scale is that of before.
    """
    backend.compute_in("bf16")
    scale.turn(False)
    stays = False
    try:
        result = again()
        stays = helped(result)
    finally:
        if stays:
            backend.compute_in("bf16", for_good=True)
        else:
            backend.compute_in("f16")
            scale.turn(True)
            scale.take_back()
    return result
