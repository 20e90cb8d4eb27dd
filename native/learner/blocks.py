"""Groups positions of a packed row into blocks that attend in one call."""

from collections.abc import Iterator
from dataclasses import dataclass

from .packing import Segment

KEY = 16
"""Cost of a copied key, in scores of a query and a key: it is gathered, kept, and its gradient added."""
CALL = 2000
"""Cost of a call in the same unit. Both measured on a CPU with heads of 64 numbers, forward and backward pass."""


@dataclass(frozen=True)
class Block:
    """Consecutive positions of a row, which attend to their own keys and those of the parts before them."""

    start: int
    end: int
    before: tuple[tuple[int, int], ...]
    """(first, end) of parts of the row that precede the block's first position in its trajectory."""
    chain: bool
    """The block continues one trajectory: its mask depends on lengths alone."""

    @property
    def length(self) -> int:
        return self.end - self.start

    @property
    def seen(self) -> int:
        return sum(end - start for start, end in self.before)

    @property
    def cost(self) -> float:
        # A causal call without a mask computes half of the scores.
        scores = self.length * (self.seen + self.length) if self.seen or not self.chain else self.length**2 / 2
        return scores + KEY * self.seen + CALL


def blocks_of(segments: tuple[Segment, ...]) -> Iterator[Block]:
    """Each segment alone, unless consecutive short ones cost less together.

    The parts that a later segment sees before the block are among those of the first segment, so these keys suffice.
    """
    at = 0
    block: Block | None = None
    for segment in segments:
        one = Block(at, at + segment.length, segment.before, True)
        at = one.end
        both = block and Block(block.start, one.end, block.before, False)
        if block and both and both.cost < block.cost + one.cost:
            block = both
            continue
        if block:
            yield block
        block = one
    if block:
        yield block
