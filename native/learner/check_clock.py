"""The time that checks take, which a step's metrics have."""

import functools
import time
from collections.abc import Callable
from typing import Any, ClassVar


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
