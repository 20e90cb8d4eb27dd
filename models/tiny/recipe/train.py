"""Supervised training on traces, in phases that share one loop."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer
from torch.nn import functional as F

from .batches import Batch, collate, groups
from .model import TinyModel
from .traces import Renamer, Trace, Traces, encode, excerpt

MUON_RATE = 0.02
ADAM_RATE = 3e-3
WARM_UP_STEPS = 40
# Tokens of a batch, padding included.
BATCH_TOKENS = 4_000
# Share of conversations in which names are replaced by symbols, and of the names in those.
RENAMED = 0.4
RENAMED_NAMES = 0.7
REPORT_EVERY = 40


@dataclass(frozen=True)
class Step:
    """What one training step is made of; a phase says it for each point of its way."""

    rate: float
    """Learning rates as a share of their peaks."""
    excerpts: float = 0.0
    """Probability that the batch is of excerpts."""
    given: float = 0.0
    """Share of prompt and tool tokens that are trained."""


class DrawnEmbeddings:
    """Embeddings that are drawn anew for every step instead of learned, from a normal distribution with the mean and
    the spread that those of the ordinary names have by then. The last draw stays."""

    def __init__(self, weight: torch.nn.Parameter, drawn: Sequence[int], names: Sequence[int]):
        """`weight`: [vocabulary, width]. `drawn`, `names`: token ids."""
        self.weight = weight
        self.drawn, self.names = (torch.tensor(ids, dtype=torch.long) for ids in (drawn, names))

    @torch.no_grad()
    def draw(self) -> None:
        if len(self.drawn) == 0:
            return
        names = self.weight[self.names]
        noise = torch.randn(len(self.drawn), names.shape[1])
        self.weight[self.drawn] = names.mean(0) + names.std(0) * noise

    def forget_gradient(self) -> None:
        if self.weight.grad is not None:
            self.weight.grad[self.drawn] = 0


class Trainer:
    """Owns the optimisers and the streams of batches; one for all phases."""

    def __init__(
        self,
        model: TinyModel,
        tokenizer: Tokenizer,
        renamer: Renamer,
        drawn: DrawnEmbeddings,
        seed: int,
        log: Callable[[str], None],
    ):
        self.model, self.tokenizer, self.renamer, self.drawn, self.log = model, tokenizer, renamer, drawn, log
        self.rng = random.Random(seed)
        hidden = [p for name, p in model.named_parameters() if p.dim() == 2 and "embed" not in name]
        self.others = [p for name, p in model.named_parameters() if p.dim() != 2 or "embed" in name]
        # Muon (Jordan et al. 2024) for hidden matrices needs about half the tokens of AdamW here.
        muon = torch.optim.Muon(hidden, lr=MUON_RATE, momentum=0.95, weight_decay=0.01, adjust_lr_fn="original")
        adam = torch.optim.AdamW(self.others, lr=ADAM_RATE, betas=(0.9, 0.95), weight_decay=0)
        self.optimisers = [(muon, MUON_RATE), (adam, ADAM_RATE)]

    def _stream(self, traces: Traces, excerpts: bool) -> Iterator[Trace]:
        """Endless, in a new order each time round."""
        while True:
            order = self.rng.sample(range(len(traces)), len(traces))
            for start in range(0, len(order), 256):
                chunk = []
                for index in order[start : start + 256]:
                    kind, pieces = traces[index]
                    if excerpts:
                        pieces = excerpt(pieces, self.rng)
                    if self.rng.random() < RENAMED:
                        pieces = self.renamer(pieces, self.rng)
                    chunk.append((kind, pieces))
                yield from encode(chunk, self.tokenizer)

    def _step(self, batch: Batch, rate: float) -> tuple[float, float]:
        """One update; mean loss and share of right first guesses over the expert's tokens."""
        targets, weights = batch.ids[:, 1:], batch.weights[:, 1:]
        chosen = weights > 0
        self.drawn.draw()
        logits = self.model.logits(self.model.hidden(batch.ids[:, :-1], torch.bfloat16)[chosen])
        losses = F.cross_entropy(logits.float(), targets[chosen], reduction="none")
        ((losses * weights[chosen]).sum() / weights[chosen].sum()).backward()
        self.drawn.forget_gradient()
        torch.nn.utils.clip_grad_norm_(self.others, 1.0)
        for optimiser, peak in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = peak * rate
            optimiser.step()
            optimiser.zero_grad()
        played = batch.played[:, 1:][chosen]
        right = logits.detach().argmax(-1)[played] == targets[chosen][played]
        return losses.detach()[played].mean().item(), right.float().mean().item()

    def run(self, phase: Callable[[float], Step], tokens: float, minutes: float, traces: Traces) -> None:
        """Trains as `phase` says until `tokens` (padding included) or `minutes` are used up, whichever comes first."""
        makers = {
            name: groups(self._stream(traces, name == "excerpts"), BATCH_TOKENS, self.rng)
            for name in ("excerpts", "whole")
        }
        seen, steps, started = 0, 0, time.monotonic()
        losses: list[tuple[float, float]] = []
        done = 0.0
        while done < 1:
            plan = phase(done)
            name = "excerpts" if self.rng.random() < plan.excerpts else "whole"
            batch = collate(next(makers[name]), plan.given, self.rng)
            losses.append(self._step(batch, plan.rate * min(1, (steps + 1) / WARM_UP_STEPS)))
            seen += batch.ids.numel()
            steps += 1
            elapsed = time.monotonic() - started
            done = max(seen / tokens, elapsed / 60 / minutes)
            if steps % REPORT_EVERY == 0 or done >= 1:
                loss, right = (sum(column) / len(losses) for column in zip(*losses, strict=True))
                self.log(
                    f"{phase.__name__}: {done:.0%}, {seen / 1e6:.2f} M tokens, {steps} steps, "
                    f"{elapsed / 60:.1f} minutes, loss {loss:.4f}, {right:.2%} of the expert's tokens right"
                )
                losses.clear()
