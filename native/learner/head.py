"""Log-probabilities of sampled tokens, and the gradient of a loss in them, without all logits ever existing.

The output layer is applied to some positions at a time. Because the loss is a sum over tokens, a chunk's gradient
can be formed as soon as its logits are there: they are thrown away before the next chunk, nothing is computed twice.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

CHUNK_BYTES = 64 * 2**20
"""Logits of one chunk, at most; two buffers of this size exist."""

TokenGradient = Callable[[torch.Tensor, slice], torch.Tensor]
"""(log-probabilities of some tokens, which of the S they are) → derivative of the loss in each of them."""


@dataclass(frozen=True)
class Scores:
    """Of S tokens, without graph."""

    logprobs: torch.Tensor
    """Natural log, at the sampling temperature, [S]"""
    entropy: torch.Tensor
    """Of the whole distribution, nats, [S]"""
    gradient: torch.Tensor | None
    """Derivative of the loss in the hidden states, [S, width]"""


@torch.no_grad()
def score(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    temperature: float,
    token_gradient: TokenGradient | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> Scores:
    """Scores `targets` [S] under softmax(hidden [S, width] · weightᵀ [width, vocabulary] / temperature).

    When the weight itself is trained, its gradient is added to `weight.grad`. Products are in f32: a logit of 15 has
    steps of 0.06 in bf16, more than the whole gap that may stand between policy and learner.
    """
    count, vocabulary = len(targets), len(weight)
    rows = max(16, min(count, chunk_bytes // (4 * vocabulary)))
    matrix = weight.detach().float()
    logprobs, entropy = torch.empty(count, device=hidden.device), torch.empty(count, device=hidden.device)
    gradient = torch.empty_like(hidden) if token_gradient else None
    buffer, other = (torch.empty(rows, vocabulary, device=hidden.device) for _ in range(2))
    for start in range(0, count, rows):
        part = slice(start, min(start + rows, count))
        states, index = hidden[part].float(), targets[part, None]
        logits = torch.mm(states, matrix.T, out=buffer[: len(index)])
        if temperature != 1.0:
            logits.div_(temperature)
        chosen = logits.gather(1, index)[:, 0]
        # Shifted by the maximum so that exp stays finite.
        top = logits.amax(1, keepdim=True)
        shifted = logits.sub_(top)
        probabilities = torch.exp(shifted, out=other[: len(index)])
        total = probabilities.sum(1)
        # Batched dot products: Σ exp(shifted) · shifted without a third buffer.
        mean_shifted = torch.bmm(probabilities[:, None, :], shifted[:, :, None])[:, 0, 0] / total
        probabilities.div_(total[:, None])
        logprobs[part] = chosen - top[:, 0] - total.log()
        entropy[part] = total.log() - mean_shifted
        if token_gradient is None or gradient is None:
            continue
        slope = token_gradient(logprobs[part], part)[:, None]
        # d logprob / d logits = (one at the token - probabilities) / temperature
        probabilities.mul_(-slope).scatter_add_(1, index, slope).div_(temperature)
        gradient[part] = torch.mm(probabilities, matrix).to(hidden.dtype)
        if weight.requires_grad:
            contribution = torch.mm(probabilities.T, states).to(weight.dtype)
            weight.grad = contribution if weight.grad is None else weight.grad.add_(contribution)
    return Scores(logprobs, entropy, gradient)
