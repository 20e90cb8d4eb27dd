"""Which positions of a packed row attend together, in one call."""

from collections.abc import Iterator
from dataclasses import dataclass

from .packing import Segment

KEY = 16
"""A copied key costs as much as so many scores of a query and a key: it is gathered, kept, and its gradient added."""
CALL = 2000
"""A call as much as so many. Both measured on a CPU with heads of 64 numbers, forward and backward pass."""


@dataclass(frozen=True)
class Block:
    """Successive positions of a row, whose keys are theirs and those of the parts before them."""

    start: int
    end: int
    before: tuple[tuple[int, int], ...]
    """(first, end) of parts of the row; what precedes the block's first position in its trajectory."""
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
        # Of a causal call without a mask half the scores are computed.
        scores = self.length * (self.seen + self.length) if self.seen or not self.chain else self.length**2 / 2
        return scores + KEY * self.seen + CALL


def blocks_of(segments: tuple[Segment, ...]) -> Iterator[Block]:
    """Each segment alone, unless short ones that follow each other cost less together.

    What a later segment sees before the block is among what the first one sees, so the block's keys are enough for all.
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
