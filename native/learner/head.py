"""Log-probabilities of sampled tokens, and the gradient of a loss in them, without holding all logits at once.

The output layer is applied to some positions at a time. Because the loss is a sum over tokens, a chunk's gradient
can be computed as soon as its logits exist: they are freed before the next chunk, and nothing is computed twice.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

CHUNK_BYTES = 64 * 2**20
"""Of the logits of one chunk at most, on a CPU; two buffers of this size exist."""
CHUNK_BYTES_CUDA = 192 * 2**20
"""On a card, which waits for the host once for each chunk: 331 positions at Qwen2.5's vocabulary. With 256 MiB
models of 0.5B would not fit on cards of 4 GB any more (src/plan)."""

HALVES = (torch.float16, torch.bfloat16)

TokenGradient = Callable[[torch.Tensor, slice], torch.Tensor]
"""(log-probabilities of some tokens, their indices among the S) → derivative of the loss in each of them."""


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
    """For 16-bit matrices on a card, summed in f32. *Not run on CUDA.*"""
    return torch.mm(one, other, out_dtype=torch.float32, out=out)


def logits_of(states: torch.Tensor, matrix: torch.Tensor, out: torch.Tensor, beside: torch.Tensor) -> torch.Tensor:
    """states [n, width] in f32 · matrixᵀ, in `out`; `beside` is overwritten.

    With a 16-bit matrix each number of the states is split into two, its rounded value and the rest: together they have
    16 bits of mantissa in bf16 and 22 in f16. That doubles the products of a rounded state, on units that a card has
    for 16 bits only.
    """
    if matrix.dtype == torch.float32:
        return torch.mm(states, matrix.T, out=out)
    rounded = states.to(matrix.dtype)
    rest = (states - rounded.float()).to(matrix.dtype)
    return multiply(rounded, matrix.T, out).add_(multiply(rest, matrix.T, beside))


@torch.no_grad()
def score(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    sources: torch.Tensor,
    targets: torch.Tensor,
    temperature: float,
    token_gradient: TokenGradient | None = None,
    chunk_bytes: int | None = None,
) -> Scores:
    """Scores each of `targets` [S] under softmax(hidden [P, width] · weightᵀ [width, vocabulary] / temperature).

    `sources` [S], rising, gives the position of the P whose distribution a target belongs to: a position is computed
    once, and the gradients of all its targets add up.

    When the weight itself is trained, its gradient is added to `weight.grad`. Logits are sums in f32: near 15, bf16 has
    steps of 0.06, more than the allowed mismatch of policy and learner. Where the weight has 16 bits on a card, so have
    the factors of the products; see `logits_of`. `chunk_bytes` is the device's (chunk_rows) unless given.
    """
    positions, vocabulary = len(hidden), len(weight)
    device = hidden.device
    rows = chunk_rows(positions, vocabulary, device, chunk_bytes)
    starts = range(0, positions, rows)
    bounds = torch.searchsorted(sources, torch.tensor([*starts, positions], device=sources.device)).tolist()
    sources, targets = sources.to(device), targets.to(device)
    matrix = weight.detach()
    halves = matrix.dtype in HALVES and in_halves(device)
    if not halves:
        matrix = matrix.float()
    logprobs, entropy = (torch.empty(len(targets), device=device) for _ in range(2))
    gradient = torch.empty_like(hidden) if token_gradient else None
    buffer, other = (torch.empty(rows, vocabulary, device=device) for _ in range(2))
    for number, start in enumerate(starts):
        part = slice(bounds[number], bounds[number + 1])
        states = hidden[start : start + rows].float()
        row, index = sources[part] - start, targets[part]
        logits = logits_of(states, matrix, buffer[: len(states)], other[: len(states)])
        if temperature != 1.0:
            logits.div_(temperature)
        chosen = logits[row, index]
        # Shifted by the maximum so that exp stays finite.
        top = logits.amax(1, keepdim=True)
        shifted = logits.sub_(top)
        probabilities = torch.exp(shifted, out=other[: len(states)])
        total = probabilities.sum(1)
        # Batched dot products: Σ exp(shifted) · shifted without a third buffer.
        mean_shifted = torch.bmm(probabilities[:, None, :], shifted[:, :, None])[:, 0, 0] / total
        probabilities.div_(total[:, None])
        logprobs[part] = chosen - (top[:, 0] + total.log())[row]
        entropy[part] = (total.log() - mean_shifted)[row]
        if token_gradient is None or gradient is None:
            continue
        slopes = token_gradient(logprobs[part], part)
        # d logprob / d logits = (one at the token - probabilities) / temperature
        together = slopes.new_zeros(len(states)).index_add_(0, row, slopes)
        probabilities.mul_(-together[:, None]).index_put_((row, index), slopes, accumulate=True).div_(temperature)
        gradient[start : start + rows] = (
            multiply(probabilities.to(matrix.dtype), matrix, torch.empty_like(states))
            if halves
            else torch.mm(probabilities, matrix)
        )
        if weight.requires_grad:
            contribution = torch.mm(probabilities.T, states).to(weight.dtype)
            weight.grad = contribution if weight.grad is None else weight.grad.add_(contribution)
    return Scores(logprobs, entropy, gradient)


@torch.no_grad()
def divergence(
    hidden: torch.Tensor, other: torch.Tensor, weight: torch.Tensor, temperature: float, chunk_bytes: int | None = None
) -> torch.Tensor:
    """KL(p ‖ q) in nats of the distributions at each position, [P]: p from `hidden` [P, width], q from `other`.

    Exact: a sum over the vocabulary. Takes no more memory than `score`.
    """
    positions, vocabulary = len(hidden), len(weight)
    # Four times as many buffers of logits as one of score's, of a quarter of the rows.
    rows = max(1, chunk_rows(positions, vocabulary, hidden.device, chunk_bytes) // 4)
    matrix = weight.detach()
    if not (matrix.dtype in HALVES and in_halves(hidden.device)):
        matrix = matrix.float()
    found = torch.empty(positions, device=hidden.device)
    buffers = [torch.empty(min(rows, positions), vocabulary, device=hidden.device) for _ in range(2)]

    def logprobs(states: torch.Tensor) -> torch.Tensor:
        out, beside = (buffer[: len(states)] for buffer in buffers)
        return torch.log_softmax(logits_of(states.float(), matrix, out, beside).div_(temperature), 1)

    for start in range(0, positions, rows):
        part = slice(start, start + rows)
        p, q = logprobs(hidden[part]), logprobs(other[part])
        found[part] = (p.exp() * q.neg_().add_(p)).sum(1)
    return found
