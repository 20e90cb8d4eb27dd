"""Forward and backward passes over the rows of a batch, and what they tell about its tokens."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from . import head, loss
from .backend import Backend
from .batch import Batch
from .device import on_device
from .errors import Refused
from .importance import effective_sample_size, importance_metrics
from .minibatches import MiniBatch
from .objective import LossSettings
from .packing import Pack
from .probe import Probe
from .ranks import Ranks
from .told import CERTAIN, MOST_DRAWN, check_drawn, check_told, random_of
from .update_check import check_apart, check_base, check_old, check_ratios, check_tokens
from .version import Version

CPU = torch.device("cpu")


@dataclass
class _Tokens:
    """Values of each sampled token of the batch, [S], where rows are computed; NaN until they are computed."""

    new: torch.Tensor
    """Log-probability under the policy of the latest pass."""
    old: torch.Tensor
    """Under π_old, the policy before the first update."""
    entropy: torch.Tensor
    """Of π_old."""
    base: torch.Tensor | None
    """Log-probability under the base model, where it is part of the loss."""
    added: torch.Tensor
    """How often its gradient was added in the latest pass ..."""
    trained: torch.Tensor
    """... and in all updates. Both are counted on the CPU: a card does not wait for that."""
    first: torch.Tensor
    """`old` as it was set."""


class Passes:
    """Forward and backward passes over rows of a batch, and what they tell about its tokens."""

    def __init__(
        self,
        backend: Backend,
        batch: Batch,
        settings: LossSettings,
        scales: torch.Tensor,
        tick: Callable[[], None],
        ranks: Ranks,
        played: Version,
    ) -> None:
        """`tick` is called after each row."""
        self._backend = backend
        self._ranks = ranks
        self._played = played
        # Where rows are computed, so is the loss of their tokens.
        self._device = backend.device
        self._batch = batch.on(self._device)
        self._settings = settings
        self._scales = on_device(scales, self._device)
        self._tick = tick
        unknown = torch.full((batch.sampled_tokens,), float("nan"), device=self._device)
        new, old, entropy, first = (unknown.clone() for _ in range(4))
        added, trained = torch.zeros(batch.sampled_tokens), torch.zeros(batch.sampled_tokens)
        self._tokens = _Tokens(new, old, entropy, None, added, trained, first)
        # By which its tokens were drawn, [S]; NaN where that is not known.
        self._random = random_of(batch)
        # Of each update but the first: whether the policy was still π_old.
        self._later: list[bool] = []
        self._watched: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []

    def score_base(self, minibatches: list[MiniBatch]) -> None:
        with self._backend.base_policy():
            self._tokens.base, _ = self._score(minibatches)

    def check_base(self) -> None:
        """Once π_old is known, before the first update. Raises Refused."""
        base, old = self._tokens.base, self._tokens.old
        check_base(self._backend.model, base is not None and torch.equal(base, old))

    def score_old(self, minibatches: list[MiniBatch]) -> None:
        """The policy is the one before any update."""
        slots = on_device(torch.cat([minibatch.slots for minibatch in minibatches]), self._device)
        logprobs, entropy = self._score(minibatches)
        self._tokens.old[slots], self._tokens.entropy[slots] = logprobs[slots], entropy[slots]
        self._tokens.first[slots] = logprobs[slots]

    def keep_as_old(self, slots: torch.Tensor) -> None:
        """The latest pass has computed π_old: no update came before it."""
        slots = on_device(slots, self._device)
        self._tokens.old[slots] = self._tokens.first[slots] = self._tokens.new[slots]

    def begin_after(self, old: torch.Tensor) -> None:
        """As if updates had come before: `old` [S] are the log-probabilities under π_old."""
        self._tokens.old = on_device(old, self._device)

    def latest(self) -> torch.Tensor:
        """Log-probabilities of the latest pass, [S] on the CPU."""
        return self._tokens.new.cpu()

    def collect(self, minibatch: MiniBatch, first: bool) -> None:
        """Completes what the latest pass tells about the tokens of a mini-batch, of which other ranks computed some."""
        tokens = self._tokens
        self._ranks.collect([tokens.new, *([tokens.entropy] if first else [])], minibatch.own, minibatch.slots)
        if self._ranks.world > 1:
            # Ranks exchange what is on their devices.
            counts = on_device(tokens.added, self._device)
            self._ranks.collect([counts], minibatch.own, minibatch.slots)
            tokens.added.copy_(counts)
        tokens.trained[minibatch.slots] += tokens.added[minibatch.slots]
        if not first:
            slots = on_device(minibatch.slots, self._device)
            self._later.append(torch.equal(tokens.new[slots], tokens.old[slots]))

    def begin_pass(self) -> None:
        """Gradients are clear."""
        self._tokens.added.zero_()
        self._watched = []

    def check_tokens(self, times: int) -> None:
        """After all updates: each token's gradient was added so often, and π_old is what it was. Raises Refused."""
        check_tokens(self._tokens.trained, times)
        check_old(self._tokens.old.cpu(), self._tokens.first.cpu())

    def check_moved(self, learning_rate: float, first_norm: float) -> None:
        """After all updates: those before the last have moved the policy. Raises Refused."""
        check_ratios(self._later, learning_rate, first_norm)

    def check_apart(self, probe: Probe) -> None:
        """The rows' π_old of the probe's tokens is that of the probe, which is in a row of its own. Raises Refused."""
        # No card has measured by how much they differ there.
        if probe.as_sampled is not None and self._device == CPU:
            check_apart(self._tokens.old[probe.slots].cpu(), probe.as_sampled, self._backend.precision)

    def check_drawn(self) -> list[str]:
        """Once π_old is known: of the tokens of `_watch`. Raises Refused, or gives a note, as `check_told`."""
        if not self._watched:
            return []
        slots, below, upto = (torch.cat(parts) for parts in zip(*self._watched, strict=True))
        told, own = self._batch.rollout.cpu()[slots], self._tokens.old.cpu()[slots]
        return self._refused_or_noted(lambda: check_drawn(self._random[slots], below, upto, told, own))

    def _watch(self, pack: Pack, hidden: torch.Tensor, logprobs: torch.Tensor) -> None:
        """Of a row's tokens that are not certain, until there are MOST_DRAWN, where the distribution has the random
        numbers by which they were drawn."""
        left = MOST_DRAWN - sum(len(slots) for slots, _, _ in self._watched)
        known = self._random[pack.slots].isfinite()
        if left <= 0 or self._played.older or not known.any():
            return
        chosen = (known & (logprobs.cpu() < CERTAIN)).nonzero().flatten()[:left]
        if len(chosen):
            weight, temperature = self._backend.output_weight(), self._batch.temperature
            places = head.cumulated(hidden, weight, pack.sources[chosen], pack.targets[chosen], temperature)
            self._watched.append((pack.slots[chosen], *places))

    def _refused_or_noted(self, check: Callable[[], None]) -> list[str]:
        try:
            check()
        except Refused as error:
            if self._device == CPU:
                raise
            return [f"{error}"]
        return []

    def check_told(self) -> list[str]:
        """Once π_old is known: the engine's log-probabilities of all sizes are those of the policy that played. Raises
        Refused where rows are computed on a CPU; elsewhere nobody has measured rounding of each size, and it is a note.
        """
        own = self._played.logprobs if self._played.older else self._tokens.old
        if own is None:
            return []
        backend = self._backend
        return self._refused_or_noted(
            lambda: check_told(self._batch.on(CPU), own.cpu(), backend.precision, backend.base.weights)
        )

    def clipped(self, slots: torch.Tensor) -> tuple[int, int]:
        """How many of the tokens the lower and the upper bound of the ratio acted on in the latest pass."""
        slots = on_device(slots, self._device)
        tokens = self._loss_tokens(slots, self._tokens.new[slots])
        below, above = loss.bounded(tokens, self._settings.objective)
        return int(below.sum()), int(above.sum())

    def accumulate(self, pack: Pack, first: bool, scale: float) -> torch.Tensor:
        """Forward and backward of one row; adds to the gradients. Returns the row's share of the loss, on the device.

        `first`: no update came before, so the policy is π_old. `scale`: factor of the gradients (LossScale).
        """
        tokens = self._tokens
        hidden = self._backend.hidden(pack)
        slots = on_device(pack.slots, self._device)
        value = torch.zeros(())

        def loss_gradient(logprobs: torch.Tensor) -> torch.Tensor:
            nonlocal value
            with torch.enable_grad():
                new = logprobs.detach().requires_grad_(True)
                if first:
                    tokens.old[slots] = new.detach()
                losses = loss.policy_loss(self._loss_tokens(slots, new), self._settings)
                value = (losses * self._scales[slots]).sum()
                (derivative,) = torch.autograd.grad(value, new)
            return derivative * scale

        temperature = self._batch.temperature
        allowed = head.allowed_of(pack, self._batch, self._device)
        # The values of a quantised output layer are not held during the backward pass.
        scores = head.score(
            hidden.detach(),
            self._backend.output_weight(),
            pack.sources,
            pack.targets,
            temperature,
            loss_gradient,
            allowed=allowed,
        )
        hidden.register_hook(lambda _: self._count(pack.slots))
        self._backend.backward(hidden, scores.gradient)
        tokens.new[slots] = scores.logprobs
        if first:
            tokens.entropy[slots] = scores.entropy
            self._watch(pack, hidden.detach(), scores.logprobs)
        self._tick()
        return value.detach()

    def _count(self, slots: torch.Tensor) -> None:
        """In the backward pass of a row with these tokens."""
        self._tokens.added[slots] += 1

    def before_metrics(self) -> dict[str, Any]:
        """Metrics of π_old. NaN log-probabilities (the loss is then NaN too) are left out."""
        # Dozens of small sums, once for each step: on the CPU.
        batch, tokens = self._batch.on(CPU), self._tokens
        every, base = tokens.old.cpu(), None if tokens.base is None else tokens.base.cpu()
        known = every.isfinite()
        old, rollout = every[known], batch.rollout[known]
        if not len(old):
            old = rollout = torch.zeros(1)
        base_kl = math.nan if base is None else loss.k3(every, base).double().nanmean().item()
        entropy = tokens.entropy.cpu().double().nanmean().nan_to_num().item()
        return self._played.distances(every, batch.rollout) | {
            "played": self._played.metrics(every),
            "klBase": base_kl if math.isfinite(base_kl) else None,
            "entropy": entropy,
            "importance": importance_metrics(every, batch.rollout, batch.owner, self._settings.importance)
            | {"ess": effective_sample_size(old, rollout)},
        }

    def _loss_tokens(self, slots: torch.Tensor, new: torch.Tensor) -> loss.Tokens:
        tokens, batch = self._tokens, self._batch
        return loss.Tokens(
            new=new,
            old=tokens.old[slots],
            rollout=batch.rollout[slots],
            advantages=batch.advantages[slots],
            owner=batch.owner[slots],
            base=None if tokens.base is None else tokens.base[slots],
        )

    def _score(self, minibatches: list[MiniBatch]) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities and entropies of the mini-batches' tokens, [S of the batch]; other entries are not set."""
        own = [pack for minibatch in minibatches for pack in minibatch.own]
        found = self._ranks.together("scores", lambda: self._score_rows(own))
        self._ranks.collect(found, own, torch.cat([minibatch.slots for minibatch in minibatches]))
        return found

    @torch.no_grad()
    def _score_rows(self, packs: list[Pack]) -> tuple[torch.Tensor, torch.Tensor]:
        backend, batch = self._backend, self._batch
        logprobs, entropy = (torch.empty(batch.sampled_tokens, device=self._device) for _ in range(2))
        for pack in packs:
            hidden = backend.hidden(pack)
            scores = head.score(
                hidden,
                backend.output_weight(),
                pack.sources,
                pack.targets,
                batch.temperature,
                allowed=head.allowed_of(pack, batch, self._device),
            )
            slots = on_device(pack.slots, self._device)
            logprobs[slots], entropy[slots] = scores.logprobs, scores.entropy
            self._tick()
        return logprobs, entropy
