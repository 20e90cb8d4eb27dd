"""Loss scaling for f16: gradients are computed multiplied by a power of two, so that small ones do not become 0.

f16 holds 6e-8 to 65504. As in mixed precision training (arXiv 1710.03740) and PyTorch's GradScaler the scale follows
the gradients: it falls when one overflows, and rises after many passes without overflow. Unlike there no update is
lost: the pass is repeated. bf16 and f32 have the range of f32 and need no scaling.
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
"""Number of passes without overflow after which it rises."""


class LossScale:
    def __init__(self, precision: str) -> None:
        self._on = precision == "f16"
        self._value = FIRST
        self._clean = 0
        self._before: float | None = None
        """The scale before its falls since the last pass without overflow."""

    @property
    def value(self) -> float:
        return self._value if self._on else 1.0

    def repeats(self, loss: float, norm: float) -> bool:
        """Records a pass. True: it must be repeated with the current, lower scale.

        A loss that is not finite is not caused by the scale.
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
        """Disabled unless the precision is f16."""
        self._on = on

    def take_back(self) -> None:
        """Undoes the falls since the last pass without overflow, which have not helped."""
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
    """Repeats in bf16 a computation that was not finite in f16 at any scale.

    `again` must checkpoint activations: autocast rounds the frozen weights for each product, and autograd would keep a
    second copy of all of them, for which no memory is planned.

    Stays in bf16 if that helped; otherwise f16's range was not the cause, and the scale is restored.
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
