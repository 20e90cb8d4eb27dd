"""The engine's log-probabilities of sampled tokens, by their size, beside the learner's.

The mean distance of the two hardly has unlikely tokens, of which there are few: what is told wrongly of those alone (a
floor, a value in place of one that is missing) passes there, and is in importance weights and in KL. With e of the
engine and c of the learner:

- Rounding moves a log-probability in proportion to 1 - probability (played.py), whatever its size. Where much of a band
  of sizes is apart by many times what is usual for the step's tokens, it is not rounding.
- Tokens of different probabilities do not share one, to the last bit, but by chance.
- e is of the distribution that was drawn from, and c one of a whole distribution: then exp(c - e) has the mean 1,
  whatever the two are, and its sum is a martingale, which by its own squares is bounded as a normal number is (de la
  Peña 1999, "A general class of exponential inequalities for martingales and ratios").

The entropy beside the mean of -e tells less: its own spread is a thousand roundings.

- A number of 32 bits that was computed has no zeros at its end, and is no multiple of a power of ten, but by chance:
  log-probabilities that all are were rounded since.
- hone's engine draws by inversion: a token is drawn where the probabilities of those with lower ids, and with its own,
  enclose a random number that follows from the rollout's seed and the position. So the learner knows which tokens its
  own distribution gives: others are drawn otherwise, or from another distribution, as one whose tail never comes.
"""

import math
from itertools import pairwise

import numpy
import torch

from .batch import Batch
from .check_clock import timed
from .errors import Refused
from .played import UNSURE, first_of_their_kind

BANDS = (0.0, -1.0, -3.0, -math.inf)
"""Bounds of sizes: of the smaller one of both."""
USUAL = {"f32": 0.003, "f16": 0.005, "bf16": 0.02}
"""Nats, over 1 - probability, that count as usual at least, by the learner's precision: most tokens of a step may be
certain, and have no distance at all."""
QUANTISED = 0.02
"""The same with weights of fewer than 16 bits."""
FAR = 0.25
"""Where this is usual, all is apart, as the distance of engine and learner tells."""
TIMES, MOST = 100, 2.0
"""The usual distance; and nats for unlikely tokens, whatever is usual. SmolLM2 with f16 weights had a mean of 0.001 and
single tokens at 0.3, with weights of 4 and 8 bits means of 0.05 to 0.07 and no token above 0.93."""
SHARE = 1e-3
"""Of tokens that are further apart in a step without a fault, at most."""
ALARM = 1e-9
"""Of a false alarm in a band of a step."""
SAME, BELOW = 10, -0.01
"""Tokens that share a log-probability, and below what: near 0, f32 has few numbers."""
ERRORS, LEAST = 10, 50
"""Standard errors of a mean, and of how many tokens: it is taken of skewed numbers."""
DIGIT, ROUNDED, DIGITS, SPARE = 0.01, 20, 4, 8
"""Log-probabilities below minus the first, different ones at least, and the decimals and last bits of 23 that are
looked at. Rounded to 4 decimals by chance: each with a probability of 0.01 near -1."""
ROUNDING = 1e-3
"""That each token has at least, for those errors: of certain tokens f32 rounds all in one direction."""


@timed
def check_told(batch: Batch, own: torch.Tensor, precision: str, weights: str) -> None:
    """`own` [S]: log-probabilities of the batch's tokens under the policy that played, by the learner; NaN where they
    are not known. Raises Refused where the batch's are not those of the tokens, or of what they were drawn from."""
    known = own.isfinite()
    told, found = batch.rollout.where(known, torch.nan).double(), own.double()
    apart = found - told
    sizes = torch.minimum(told, found)
    unsure = 1 - sizes.exp()
    distance = apart.abs() / unsure.clamp(min=UNSURE)
    _check_shared(batch, told, found)
    if not known.any():
        return
    _check_digits(batch, batch.rollout[known])
    least = USUAL[precision] if weights in USUAL else max(USUAL[precision], QUANTISED)
    usual = max(least, float(distance[known].median()))
    if usual > FAR:
        return
    for high, low in pairwise(BANDS):
        far = distance > (min(TIMES * usual, MOST) if high < 0 else TIMES * usual)
        _check_band(batch, (sizes <= high) & (sizes > low), far, apart, (low, high))
    _check_mean(apart[known])


def _check_band(
    batch: Batch, band: torch.Tensor, far: torch.Tensor, apart: torch.Tensor, bounds: tuple[float, float]
) -> None:
    # Rollouts of one prompt repeat each other: only where there is something to say are they told apart.
    if not _many(int((far & band).sum()), int(band.sum())):
        return
    once = _once(batch)
    much, of = far & band & once, band & once
    if not _many(int(much.sum()), int(of.sum())):
        return
    low, high = bounds
    size = f"below {high:g}" if math.isinf(low) else f"from {low:g} to {high:g}"
    raise Refused(
        f"the engine's log-probabilities of tokens {size} are not the learner's: {int(much.sum())} of "
        f"{int(of.sum())} are apart by far more than is usual for this step's tokens, by "
        f"{float(apart[much].abs().mean()):.2g} nats on average"
    )


def _many(much: int, of: int) -> bool:
    """Whether so many would be apart in fewer than ALARM steps. Chernoff's bound of a binomial number."""
    share = much / of if of else 0.0
    if share <= SHARE:
        return False
    rest = (1 - share) * math.log((1 - share) / (1 - SHARE)) if share < 1 else 0.0
    return of * (share * math.log(share / SHARE) + rest) > -math.log(ALARM)


def _check_shared(batch: Batch, told: torch.Tensor, found: torch.Tensor) -> None:
    below = told < BELOW
    if not below.any() or int(_most(told[below])[1]) < SAME:
        return
    below &= _once(batch)
    value, count = _most(told[below]) if below.any() else (0.0, 0)
    if count < SAME:
        return
    shared = found[below & (told == value)]
    raise Refused(
        f"the engine told one log-probability, {value:.4g}, of {count} tokens, to which the learner gives "
        f"{float(shared.min()):.4g} to {float(shared.max()):.4g}"
    )


def _most(values: torch.Tensor) -> tuple[float, int]:
    """The most frequent value, and how often it is there."""
    each, counts = values.unique(return_counts=True)
    at = int(counts.argmax())
    return float(each[at]), int(counts[at])


def _check_digits(batch: Batch, told: torch.Tensor) -> None:
    # Near 0 a number of f32 may be one of few.
    values = told[told < -DIGIT].unique().double()
    if len(values) < ROUNDED:
        return
    # Binary digits: the bits of f32 behind those that f16 and bf16 have.
    bits = values.float().numpy().view(numpy.int32)
    if not (bits & ((1 << SPARE) - 1)).any():
        raise Refused(f"the engine's log-probabilities are rounded: all {len(values)} have at most {23 - SPARE} bits")
    for digits in range(1, DIGITS + 1):
        scaled = values * 10**digits
        if bool(((scaled - scaled.round()).abs() <= 2**-22 * scaled.abs()).all()):
            raise Refused(f"the engine's log-probabilities are rounded: all {len(values)} to {digits} decimals")


MOST_DRAWN, CERTAIN = 64, -0.05
"""Tokens whose random numbers are looked at in a step, of those with a log-probability below the second: a certain
token is drawn by almost any number."""
OUTSIDE, FEW, ONE, MEAN = 0.002, (3, 5), (1, 20), 0.5
"""How far a random number is outside of what its token has in the distribution: at least, and of how many tokens by how
many mean distances of engine and learner. Rounding moves the bounds by half such a distance at most, on average: the
mean of all, of LEAST / 2 tokens or more. SmolLM2 in f16 and Q4_1 was at 0.03 to 0.05 of it on average, and no token
above 0.9."""


def uniforms(seed: int, positions: torch.Tensor) -> torch.Tensor:
    """The engine's random numbers at these positions of a sequence, in [0, 1) (`uniform` in native/engine/sampling.cc):
    SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators")."""
    golden = numpy.uint64(0x9E3779B97F4A7C15)

    def mixed(x: numpy.ndarray) -> numpy.ndarray:
        x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return x ^ (x >> numpy.uint64(31))

    # Arrays wrap around without a warning.
    start = mixed(numpy.array([seed], dtype=numpy.uint64) + golden)
    steps = positions.numpy().astype(numpy.uint64) + numpy.uint64(1)
    return torch.from_numpy((mixed(start + golden * steps) >> numpy.uint64(11)).astype(numpy.float64) * 2.0**-53)


def random_of(batch: Batch) -> torch.Tensor:
    """The random number by which each token of the batch was drawn, [S]; NaN where that is not known: of other engines,
    agents' sequences, and tokens that a grammar restricted."""
    found = torch.full((batch.sampled_tokens,), torch.nan, dtype=torch.float64)
    for one in batch.sequences:
        if one.seed is None or batch.temperature <= 0:
            continue
        places = one.sampled.nonzero().flatten()
        random = uniforms(one.seed, places)
        free = torch.ones(len(places), dtype=torch.bool) if one.allowed is None else one.allowed[places] < 0
        found[one.first_slot : one.first_slot + len(places)] = random.where(free, torch.nan)
    return found


@timed
def check_drawn(
    random: torch.Tensor, below: torch.Tensor, upto: torch.Tensor, told: torch.Tensor, own: torch.Tensor
) -> None:
    """Of some tokens [n]: the random number by which each was drawn is between the probabilities of the tokens with
    lower ids, and with its own or lower ones. `told` and `own`: its log-probability by engine and learner."""
    outside = torch.maximum(below.double() - random, random - upto.double())
    usual = float((told - own).abs().mean())
    mean = float(outside.clamp(min=0).mean()) if len(outside) >= LEAST / 2 else 0.0
    # A comparison with NaN is false: what is not a number is told elsewhere.
    for least, times in ((1, 0), FEW, ONE) if mean > OUTSIDE + MEAN * usual else (FEW, ONE):
        others = outside > OUTSIDE + times * usual
        if int(others.sum()) < least:
            continue
        raise Refused(
            f"{int(others.sum())} of {len(random)} tokens are not those that the random numbers of their seed give: "
            f"these are outside of the tokens' probabilities by {float(outside[others].mean()):.2g} on average (limit "
            f"{OUTSIDE + times * usual:.2g})"
        )


def _check_mean(apart: torch.Tensor) -> None:
    excess = torch.expm1(apart)
    if len(excess) < LEAST:
        return
    errors = float(excess.sum() / (excess.square() + ROUNDING**2).sum().sqrt())
    # A comparison with NaN is false.
    if not abs(errors) <= ERRORS:
        raise Refused(
            f"the engine's log-probabilities are not those of what its tokens were drawn from: the mean of the ratios "
            f"of the learner's probabilities to the engine's is {1 + float(excess.mean()):.5g}, {abs(errors):.1f} "
            "standard errors from 1"
        )


def _once(batch: Batch) -> torch.Tensor:
    """Tokens [S] that have no other before them with the same tokens before it."""
    seen: set[int] = set()
    return torch.cat([first_of_their_kind(one, seen) for one in batch.sequences]).bool()
