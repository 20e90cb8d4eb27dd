"""One policy-gradient update on a batch: forward and backward over its rows, then the optimizer."""

import math
import time
from dataclasses import dataclass
from typing import Any

import torch

from . import head, loss
from .backend import Backend
from .batch import Batch
from .errors import Refused
from .memory import forget
from .optimizer import Optimizer
from .packing import Pack, plan
from .probe import Probe
from .protocol import Progress


@dataclass
class _Tokens:
    """What is known of each sampled token of the batch, [S]."""

    new: torch.Tensor
    old: torch.Tensor
    entropy: torch.Tensor
    base: torch.Tensor | None


def settings_of(request: dict[str, Any]) -> loss.LossSettings:
    return loss.LossSettings(
        kind=request["loss"],
        clip_low=request["clipLow"],
        clip_high=request["clipHigh"],
        kl_coefficient=request["klCoefficient"],
        mismatch_clip=request["mismatchClip"],
    )


def policy_update(
    backend: Backend, optimizer: Optimizer, batch: Batch, request: dict[str, Any], progress: Progress
) -> dict[str, Any]:
    """Applies the update, or leaves everything as it was when loss or gradient is not finite. Returns the metrics; when
    it was applied, its `probe` is among them.

    Raises Refused when the batch has no advantage to learn from.
    """
    if not batch.advantages.any() and not request["klCoefficient"]:
        raise Refused(
            "every advantage of the batch is 0: its groups have no spread in reward, so there is nothing to learn"
        )
    started = time.monotonic()
    settings = settings_of(request)
    divisor = loss.normaliser(
        settings, batch.sampled_tokens, len(batch.trajectories), request.get("maxCompletionTokens")
    )
    packs = plan(batch, request["microBatchTokens"])
    backend.checkpointing(request["gradientCheckpointing"])
    epochs = request.get("epochs", 1)
    empty = torch.full((batch.sampled_tokens,), float("nan"))
    tokens = _Tokens(empty.clone(), empty, empty.clone(), None)
    before = optimizer.snapshot()
    rows = len(packs) * (epochs + (1 if settings.kl_coefficient else 0))
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        progress("update", done, rows)

    optimizer.clear()
    try:
        probe = Probe(backend, batch)
        if settings.kl_coefficient:
            tokens.base = _base_logprobs(backend, batch, packs, tick)
        metrics: dict[str, Any] = {}
        for epoch in range(epochs):
            total = sum(
                _accumulate(backend, batch, pack, tokens, settings, divisor, epoch == 0, tick) for pack in packs
            )
            norm = optimizer.clip(request["maxGradNorm"])
            skipped = "loss" if not math.isfinite(total) else "gradient" if not math.isfinite(norm) else None
            if epoch == 0:
                # What the first pass computed is the policy before any update.
                tokens.old = tokens.new.clone()
                metrics = _before(batch, tokens, settings)
            metrics |= {
                "loss": total if math.isfinite(total) else None,
                "gradNorm": norm if math.isfinite(norm) else None,
                "skipped": skipped,
                "applied": skipped is None,
                "clipFraction": loss.clipped(tokens.new, tokens.old, batch.advantages, settings).double().mean().item(),
            }
            if skipped:
                optimizer.restore(before)
                break
            optimizer.update(request["learningRate"])
            optimizer.clear()
        if metrics["applied"]:
            metrics["probe"] = probe.written()
    except BaseException as error:
        # Out of memory, say: the next try must start from where this one did, and going back needs memory too.
        forget(error)
        optimizer.restore(before)
        raise
    finally:
        optimizer.clear()
    return metrics | {
        "groups": batch.groups,
        "trajectories": len(batch.trajectories),
        "tokens": {
            "total": batch.tokens,
            "sampled": batch.sampled_tokens,
            "computed": sum(len(pack.ids) for pack in packs),
            "padding": 0,
        },
        "microBatches": len(packs),
        "learningRate": request["learningRate"],
        "seconds": {"update": time.monotonic() - started},
    }


def _accumulate(
    backend: Backend,
    batch: Batch,
    pack: Pack,
    tokens: _Tokens,
    settings: loss.LossSettings,
    divisor: float,
    first: bool,
    tick: Any,
) -> float:
    """Forward and backward of one row; adds to the gradients. Returns the row's share of the loss."""
    hidden = backend.hidden(pack)
    slots = pack.slots
    total = 0.0

    def slope(logprobs: torch.Tensor, part: slice) -> torch.Tensor:
        nonlocal total
        here = slots[part]
        with torch.enable_grad():
            new = logprobs.cpu().requires_grad_(True)
            old = new.detach() if first else tokens.old[here]
            base = None if tokens.base is None else tokens.base[here]
            value = (
                loss.policy_loss(new, old, batch.rollout[here], batch.advantages[here], base, settings).sum() / divisor
            )
            (derivative,) = torch.autograd.grad(value, new)
        total += value.item()
        return derivative.to(logprobs.device)

    scores = head.score(
        hidden.detach(), backend.output_weight(), pack.targets.to(hidden.device), batch.temperature, slope
    )
    hidden.backward(scores.gradient)
    tokens.new[slots] = scores.logprobs.cpu()
    if first:
        tokens.entropy[slots] = scores.entropy.cpu()
    tick()
    return total


@torch.no_grad()
def _base_logprobs(backend: Backend, batch: Batch, packs: list[Pack], tick: Any) -> torch.Tensor:
    logprobs = torch.empty(batch.sampled_tokens)
    with backend.base_policy():
        for pack in packs:
            hidden = backend.hidden(pack)
            targets = pack.targets.to(hidden.device)
            logprobs[pack.slots] = head.score(
                hidden, backend.output_weight(), targets, batch.temperature
            ).logprobs.cpu()
            tick()
    return logprobs


def _before(batch: Batch, tokens: _Tokens, settings: loss.LossSettings) -> dict[str, Any]:
    """Metrics of the policy before the update. Where a log-probability is NaN (the loss is too), they leave it out."""
    known = tokens.old.isfinite()
    old, rollout = tokens.old[known], batch.rollout[known]
    if not len(old):
        old = rollout = torch.zeros(1)
    base_kl = math.nan if tokens.base is None else loss.k3(tokens.old, tokens.base).double().nanmean().item()
    entropy = tokens.entropy.double().nanmean().nan_to_num().item()
    kl_known = {"klBase": base_kl if math.isfinite(base_kl) else None, "entropy": entropy}
    return loss.mismatch_metrics(old, rollout) | kl_known
