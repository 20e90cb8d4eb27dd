"""Reads and checks an objective's record, an entry of the table in src/config/objectives.ts."""

from dataclasses import dataclass
from typing import Any

from .errors import Refused

RATIOS = ("token", "sequence")
NORMALISERS = ("tokens", "sequences", "constant")


@dataclass(frozen=True)
class Objective:
    name: str
    surrogate: str
    """Name of a function in loss.SURROGATES."""
    ratio: str
    """Ratio new/old of a "token", or of its "sequence": the geometric mean over its trajectory. A rollout of several
    sequences has a ratio for each."""
    normaliser: str
    """Divisor of the sum of the losses: the "tokens" of all rollouts played, each rollout's own tokens (of all its
    sequences) and then the number of rollouts played ("sequences"), or the "constant" of the highest possible number of
    tokens of these."""
    clip_low: float | None
    """The ratio is bounded by 1 - clip_low from below; None: not at all."""
    clip_high: float
    """The ratio is bounded by 1 + clip_high from above."""


def read_objective(record: dict[str, Any], surrogates: list[str]) -> Objective:
    """Raises Refused for a record that this learner cannot use."""
    name = record.get("name")
    for key, known in (("surrogate", surrogates), ("ratio", RATIOS), ("normaliser", NORMALISERS)):
        if record.get(key) not in known:
            raise Refused(f"the objective {name} has the {key} {record.get(key)!r}; the learner has {', '.join(known)}")
    low, high = record.get("clipLow"), record.get("clipHigh")
    if low is not None and not (isinstance(low, (int, float)) and 0 <= low <= 1):
        raise Refused(f"the objective {name} has the clipLow {low!r}; give a number from 0 to 1, or null")
    if not (isinstance(high, (int, float)) and high >= 0):
        raise Refused(f"the objective {name} has the clipHigh {high!r}; give a number of at least 0")
    return Objective(str(name), record["surrogate"], record["ratio"], record["normaliser"], low, high)
