"""Log-probabilities of sampled tokens, and the gradient of a loss in them, without holding all logits at once.

The output layer is applied to some positions at a time. The gradient of a token's log-probability in the hidden state
does not depend on the loss, so a chunk's are computed as soon as its logits exist, which are then overwritten. The
loss's derivatives, one factor for each token, are asked for once, of all tokens of a row together: a card does not wait
for the host between chunks, and nothing is computed twice.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy
import torch

from .batch import Batch
from .device import on_device
from .packing import Pack
from .products import mm_into

CHUNK_BYTES = 64 * 2**20
"""Of the logits of one chunk at most, on a CPU; two buffers of this size exist."""
CHUNK_BYTES_CUDA = 192 * 2**20
"""On a card, which launches some 20 kernels for each chunk: 331 positions at Qwen2.5's vocabulary. With 256 MiB
models of 0.5B would not fit on cards of 4 GB any more (src/machine/plan)."""

HALVES = (torch.float16, torch.bfloat16)

TokenGradient = Callable[[torch.Tensor], torch.Tensor]
"""Log-probabilities of the S tokens → derivative of the loss in each of them, [S], on the same device."""


@dataclass(frozen=True)
class Allowed:
    """The tokens among which those of P positions were drawn, where a grammar restricted them."""

    sets: torch.Tensor
    """uint8 [sets, vocabulary / 8] on the device: a bit for each token, the lowest of a byte first."""
    numbers: torch.Tensor
    """Number of each position's set on the CPU, [P]; -1 where every token could come."""


def allowed_of(pack: Pack, batch: Batch, device: torch.device) -> Allowed | None:
    if pack.allowed is None or batch.sets is None:
        return None
    return Allowed(on_device(batch.sets, device), pack.allowed)


REFUSED = -1e30
"""Logit of a token that could not come: its probability is 0, and so is its product with it."""


@dataclass(frozen=True)
class Scores:
    """For S tokens that P positions predict, without graph."""

    logprobs: torch.Tensor
    """Natural log, at the sampling temperature, [S]"""
    entropy: torch.Tensor
    """Entropy of the whole distribution, nats, [S]"""
    gradient: torch.Tensor | None
    """Derivative of the loss in the hidden states, [P, width]"""


def in_halves(device: torch.device) -> bool:
    """A CPU is not faster in 16 bits."""
    return device.type == "cuda"


def chunk_rows(positions: int, vocabulary: int, device: torch.device, chunk_bytes: int | None = None) -> int:
    """Positions of one chunk."""
    if chunk_bytes is None:
        chunk_bytes = CHUNK_BYTES_CUDA if device.type == "cuda" else CHUNK_BYTES
    return max(16, min(positions, chunk_bytes // (4 * vocabulary)))


def multiply(one: torch.Tensor, other: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """For 16-bit matrices on a card, summed in f32."""
    return torch.mm(one, other, out_dtype=torch.float32, out=out)


def logits_of(states: torch.Tensor, matrix: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
    """states [n, width] in f32 · matrixᵀ, in the first n rows of the buffer [2 n or more, vocabulary]; the next n are
    overwritten.

    With a 16-bit matrix each number of the states is split into two, its rounded value and the rest: together they have
    16 bits of mantissa in bf16 and 22 in f16. That doubles the products of a rounded state, on units that a card has
    for 16 bits only.
    """
    count = len(states)
    if matrix.dtype == torch.float32:
        return mm_into(buffer[:count], states, matrix.T)
    # In one product: each matrix is read once, and launches are few.
    halves = states.new_empty(2 * count, states.shape[1], dtype=matrix.dtype)
    rounded = halves[:count].copy_(states)
    torch.sub(states, rounded, out=halves[count:])
    both = multiply(halves, matrix.T, buffer[: 2 * count])
    return both[:count].add_(both[count:])


@torch.no_grad()
def score(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    sources: torch.Tensor,
    targets: torch.Tensor,
    temperature: float,
    token_gradient: TokenGradient | None = None,
    chunk_bytes: int | None = None,
    allowed: Allowed | None = None,
) -> Scores:
    """Scores each of `targets` [S] under softmax(hidden [P, width] · weightᵀ [width, vocabulary] / temperature).

    `sources` [S], rising and on the CPU, gives the position of the P whose distribution a target belongs to: a position
    is computed once, and the gradients of all its targets add up.

    With `allowed` the distribution of a position is the one restricted to its set, and so is its entropy.

    When the weight itself is trained, its gradient is added to `weight.grad`; that takes the logits a second time.
    Logits are sums in f32: near 15, bf16 has steps of 0.06, more than the allowed mismatch of policy and learner. Where
    the weight has 16 bits on a card, so have the factors of the products; see `logits_of`. `chunk_bytes` is the
    device's (chunk_rows) unless given.
    """
    layer = _Layer(hidden, weight, temperature, chunk_bytes, allowed)
    firsts, others = _targets_of(sources, len(hidden))
    first_targets = on_device(targets[firsts], hidden.device)
    # Indices of the targets' logits in their chunks.
    flat = on_device(sources % layer.rows * len(weight) + targets, hidden.device)
    bounds = numpy.searchsorted(sources.numpy(), [*layer.starts, len(hidden)]).tolist()
    chosen = torch.empty(len(targets), device=hidden.device)
    log_totals, means = (torch.empty(len(hidden), device=hidden.device) for _ in range(2))
    gradient = torch.empty(hidden.shape, device=hidden.device) if token_gradient else None
    for number, (part, probabilities, shifted) in enumerate(layer.chunks()):
        own = slice(bounds[number], bounds[number + 1])
        torch.take(shifted, flat[own], out=chosen[own])
        totals = probabilities.sum(1)
        torch.log(totals, out=log_totals[part])
        # Batched dot products: Σ exp(shifted) · shifted without a third buffer.
        means[part] = torch.bmm(probabilities[:, None, :], shifted[:, :, None])[:, 0, 0] / totals
        if gradient is not None:
            # d logprob / d logits = (one at the token - probabilities) / temperature. The factor of a token is not
            # known yet; it is that of the product's row. One at the first target is subtracted before the product is
            # rounded: of a likely token little is left.
            slopes = probabilities.div_(totals[:, None])
            slopes.scatter_add_(1, first_targets[part, None], slopes.new_full((len(slopes), 1), -1))
            layer.product(slopes, out=gradient[part])
    index = on_device(sources, hidden.device)
    logprobs = chosen.sub_(log_totals[index])
    entropy = log_totals.sub_(means)[index]
    if token_gradient is None or gradient is None:
        return Scores(logprobs, entropy, None)
    factors = token_gradient(logprobs) / temperature
    of_positions = torch.zeros_like(means).index_add_(0, index, factors)
    gradient.mul_(-of_positions[:, None])
    # Further targets of a position: one at each instead of at the first.
    for some in others.split(layer.elements // (4 * hidden.shape[1])):
        own = on_device(some, hidden.device)
        at, instead = index[own], on_device(targets[some], hidden.device)
        rows = layer.matrix[instead].float().sub_(layer.matrix[first_targets[at]])
        gradient.index_add_(0, at, rows.mul_(factors[own, None]))
    if weight.requires_grad:
        _add_weight_gradient(layer, weight, index, on_device(targets, hidden.device), factors, of_positions)
    return Scores(logprobs, entropy, gradient.to(hidden.dtype))


class _Layer:
    """The output layer, applied to some positions at a time in the same two buffers."""

    def __init__(
        self,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        temperature: float,
        chunk_bytes: int | None,
        allowed: Allowed | None,
    ) -> None:
        self._hidden, self._temperature, self._allowed = hidden, temperature, allowed
        device = hidden.device
        self.rows = chunk_rows(len(hidden), len(weight), device, chunk_bytes)
        self.elements = self.rows * len(weight)
        """Of a chunk's logits; the buffer has twice as many."""
        self.starts = range(0, len(hidden), self.rows)
        self.matrix = weight.detach()
        self._halves = self.matrix.dtype in HALVES and in_halves(device)
        if not self._halves:
            self.matrix = self.matrix.float()
        self._buffer = torch.empty(2 * self.rows, len(weight), device=device)

    def states(self, part: slice) -> torch.Tensor:
        return self._hidden[part].float()

    def chunks(self) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor]]:
        """Positions, probabilities that do not sum to 1 yet [n, vocabulary], and their logarithms."""
        for start in self.starts:
            part = slice(start, min(start + self.rows, len(self._hidden)))
            count = part.stop - start
            shifted = logits_of(self.states(part), self.matrix, self._buffer)
            if self._temperature != 1.0:
                shifted.div_(self._temperature)
            if self._allowed is not None:
                self._refuse(shifted, part, self._allowed)
            # Shifted by the maximum so that exp stays finite.
            shifted.sub_(shifted.amax(1, keepdim=True))
            yield part, torch.exp(shifted, out=self._buffer[count : 2 * count]), shifted

    def _refuse(self, logits: torch.Tensor, part: slice, allowed: Allowed) -> None:
        numbers = allowed.numbers[part]
        restricted = (numbers >= 0).nonzero()[:, 0]
        if not len(restricted):
            return
        device = logits.device
        rows, bits = on_device(restricted, device), allowed.sets[on_device(numbers[restricted], device)]
        places = torch.arange(8, dtype=torch.uint8, device=device)
        refused = (bits[:, :, None] >> places & 1).flatten(1)[:, : logits.shape[1]] == 0
        logits[rows] = logits[rows].masked_fill_(refused, REFUSED)

    def product(self, slopes: torch.Tensor, out: torch.Tensor) -> None:
        """slopes [n, vocabulary] · matrix"""
        if self._halves:
            multiply(slopes.to(self.matrix.dtype), self.matrix, out)
        else:
            mm_into(out, slopes, self.matrix)


def _targets_of(sources: torch.Tensor, positions: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Index of each position's first target, [P] (any where it has none), and those of all other targets."""
    # By NumPy: PyTorch's own would wake all threads.
    firsts = torch.from_numpy(numpy.searchsorted(sources.numpy(), numpy.arange(positions)))
    firsts = firsts.clamp_(max=len(sources) - 1)
    return firsts, (sources[1:] == sources[:-1]).nonzero()[:, 0] + 1


def _add_weight_gradient(
    layer: _Layer,
    weight: torch.Tensor,
    index: torch.Tensor,
    targets: torch.Tensor,
    factors: torch.Tensor,
    of_positions: torch.Tensor,
) -> None:
    total = torch.zeros(weight.shape, device=weight.device)
    for part, probabilities, _ in layer.chunks():
        probabilities.mul_((-of_positions[part] / probabilities.sum(1))[:, None])
        total.addmm_(probabilities.T, layer.states(part))
    states = layer.states(slice(None))
    total.index_add_(0, targets, states[index].mul_(factors[:, None]))
    contribution = total.to(weight.dtype)
    weight.grad = contribution if weight.grad is None else weight.grad.add_(contribution)


@torch.no_grad()
def cumulated(
    hidden: torch.Tensor, weight: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """For each of few `targets` [S], as in `score`, the probability of all tokens with a lower id, and with its own or
    a lower one, [S] on the CPU."""
    positions, sources = sources.unique(return_inverse=True)
    layer = _Layer(hidden[on_device(positions, hidden.device)], weight, temperature, None, None)
    ids = torch.arange(len(weight), device=hidden.device)
    below, upto = [], []
    for part, probabilities, _ in layer.chunks():
        inside = (sources >= part.start) & (sources < part.stop)
        rows = probabilities[on_device(sources[inside] - part.start, hidden.device)]
        rows = rows.div_(rows.sum(1, keepdim=True))
        own = on_device(targets[inside], hidden.device)[:, None]
        below.append(rows.where(ids < own, 0.0).sum(1).cpu())
        upto.append(rows.where(ids <= own, 0.0).sum(1).cpu())
    return torch.cat(below), torch.cat(upto)


@torch.no_grad()
def divergences(
    hidden: torch.Tensor,
    others: Sequence[torch.Tensor],
    weight: torch.Tensor,
    temperature: float,
    chunk_bytes: int | None = None,
) -> list[torch.Tensor]:
    """KL(p ‖ q) in nats of the distributions at each position, [P], for each q: p from `hidden` [P, width], q from one
    of the others.

    Exact: a sum over the vocabulary. Takes no more memory than `score`.
    """
    positions, vocabulary = len(hidden), len(weight)
    # Four times as many buffers of logits as one of score's, of a quarter of the rows.
    rows = max(1, chunk_rows(positions, vocabulary, hidden.device, chunk_bytes) // 4)
    matrix = weight.detach()
    if not (matrix.dtype in HALVES and in_halves(hidden.device)):
        matrix = matrix.float()
    buffer = torch.empty(2 * min(rows, positions), vocabulary, device=hidden.device)

    def logprobs(states: torch.Tensor) -> torch.Tensor:
        logits = logits_of(states.float(), matrix, buffer)
        return torch.log_softmax(logits if temperature == 1 else logits.div_(temperature), 1)

    found = [torch.empty(positions, device=hidden.device) for _ in others]
    for start in range(0, positions, rows):
        part = slice(start, start + rows)
        p = logprobs(hidden[part])
        for other, into in zip(others, found, strict=True):
            distance = logprobs(other[part]).neg_().add_(p)
            # The logits are not needed any more.
            probabilities = torch.exp(p, out=buffer[: len(p)])
            # As in `score`, batched dot products.
            into[part] = torch.bmm(probabilities[:, None, :], distance[:, :, None])[:, 0, 0]
    return found
