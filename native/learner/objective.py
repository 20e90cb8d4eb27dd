"""What a step's loss is: the objective, an entry of src/core/learn/objectives.ts, and importance weights."""

from dataclasses import dataclass
from typing import Literal

from .errors import Refused


@dataclass(frozen=True)
class Objective:
    name: str
    surrogate: Literal["clipped-ratio", "clipped-weight"]
    """Name of a function in loss.SURROGATES."""
    ratio: Literal["token", "sequence"]
    """Ratio new/old of a "token", or of its "sequence": the geometric mean over its trajectory. A rollout of several
    sequences has a ratio for each."""
    normaliser: Literal["tokens", "sequences", "constant"]
    """Divisor of the sum of the losses: the "tokens" of all rollouts played, each rollout's own tokens (of all its
    sequences) and then the number of rollouts played ("sequences"), or the "constant" of the highest possible number of
    tokens of these."""
    clip_low: float | None
    """The ratio is bounded by 1 - clip_low from below; None: not at all."""
    clip_high: float
    """The ratio is bounded by 1 + clip_high from above."""

    def __post_init__(self) -> None:
        if self.clip_low is not None and not 0 <= self.clip_low <= 1:
            raise Refused(
                f"the objective {self.name} has the clipLow {self.clip_low!r}; give a number from 0 to 1, or null"
            )
        if not self.clip_high >= 0:
            raise Refused(f"the objective {self.name} has the clipHigh {self.clip_high!r}; give a number of at least 0")


@dataclass(frozen=True)
class Importance:
    """Of importance.py."""

    mode: Literal["off", "token-truncate", "token-mask", "sequence-truncate", "sequence-mask"]
    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high:
            raise Refused(f"importance weights cannot be bounded by {self.low} and {self.high}: give 0 <= low < high")

    @property
    def level(self) -> str:
        """Whether the ratio is a token's or its trajectory's: "token" or "sequence"."""
        return "sequence" if self.mode.startswith("sequence-") else "token"

    @property
    def masks(self) -> bool:
        return self.mode.endswith("-mask")


@dataclass(frozen=True)
class LossSettings:
    objective: Objective
    importance: Importance
    kl_coefficient: float
    """Weight of KL(new ‖ base), which needs the base model's log-probabilities; 0 does not."""
