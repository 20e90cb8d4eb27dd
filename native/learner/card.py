"""Chooses how a backend computes rows: on a card the fastest of four ways that works there, each tried beforehand.

    fused layers         as the next, with few products for all adapters (fused.py); for adapters only
    compiled layers      each layer is compiled, with one attention call (flex.py) in it
    one attention call   that alone is compiled
    blocks               nothing is compiled (attention.py); the only way on a CPU

A way that PyTorch cannot compile, or whose results differ from those of blocks, is dropped, with a note; so is one that
fails later, on a row.
"""

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.nn.attention.flex_attention import flex_attention

from . import head
from .attention import Layout
from .compiler import COMPILED, missing_toolchain, prepare, reason, without_damaged
from .errors import is_out_of_memory
from .flex import FlexLayout, padded
from .fused_model import FusedModel, fits
from .fused_weights import ADAPTER
from .memory import forget
from .packing import Pack
from .packing_check import SAME, Computed, Limits, compared, computed_rows, difference, trial_rows, untouched
from .quantised import compile_values, type_of_products
from .rounding import limits

PROMPT, LENGTHS = 150, (420, 310, 290)
"""Rollouts of a trial, as in packing_check.py: long enough that some squares of scores are entirely visible, some
partly, some not at all."""
SCORED = 64
"""Hidden states for the trial of the output layer."""


@dataclass(frozen=True)
class Way:
    name: str
    one_call: bool
    layers: bool
    fused: bool = False


BLOCKS = Way("blocks", False, False)
ON_A_CARD = (
    Way("fused layers", True, True, True),
    Way("compiled layers", True, True),
    Way("one attention call", True, False),
)
"""In order of trial."""


class State(NamedTuple):
    """Of a backend: what other code is compiled for. The first rows of each are tried."""

    precision: str
    weights: torch.dtype
    """Of frozen matrices: that of `precision`, unless that is tried for one update (scaling.py)."""
    twice: bool
    """Whether activations are computed twice; false without adapters, where nothing is learnt."""
    adapted: bool
    """False for the base policy."""


def state_of(backend: Any) -> State:
    layers = backend._causal.model.layers
    # Not all layers have adapters, where some of a hybrid's have other modules.
    adapted = (one for layer in layers for one in layer.modules() if ADAPTER in getattr(one, "lora_A", ()))
    off = any(module.disable_adapters for module in itertools.islice(adapted, 1))
    twice = layers[0].gradient_checkpointing and not off
    linear = next(module for module in layers[0].modules() if isinstance(module, torch.nn.Linear))
    return State(backend.precision, type_of_products(linear), twice, not off)


class Rows:
    """Belongs to one backend (PeftBackend)."""

    def __init__(self, ways: tuple[Way, ...] = ()) -> None:
        """Without ways only blocks are used."""
        self._ways = ways
        self._left: list[Way] = []
        """Those that have not failed, for matrices of this type:"""
        self._weights: torch.dtype | None = None
        self._chosen: dict[State, Way] = {}
        self._notes: list[str] = []
        self._said: set[str] = set()
        self._attend: Any = None
        self._others: set[Way] = set()
        """Those that have failed on another rank (ranks.py)."""
        self._mended = False
        self._exact: dict[torch.dtype, bool] = {}
        """16-bit types that represent the output layer's weights exactly."""
        self.way = BLOCKS
        self.fused: FusedModel | None = None
        self.expanded = False
        """Whether one attention call gets keys and values for each query head. FlexAttention's backward pass goes
        through the heads that share one, one after the other (PyTorch 2.13); but they are kept as often. `yarn
        gpu-check` measures both."""

    def lay_out(
        self, pack: Pack, device: torch.device, windows: frozenset[int | None]
    ) -> tuple[Pack, Layout | FlexLayout]:
        """The padded row, and its attention, for layers with these windows."""
        if not self.way.one_call:
            return pack, Layout(pack)
        row = padded(pack)
        return row, FlexLayout(row, device, self._attend, windows, self.expanded)

    def padding(self, pack: Pack) -> int:
        return len(padded(pack).ids) - len(pack.ids) if self.way.one_call else 0

    def output_weight(self, weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """In `dtype` where that has 16 bits, represents the same numbers, and makes products faster (head.py)."""
        if dtype not in head.HALVES or weight.requires_grad or not head.in_halves(weight.device):
            return weight
        if dtype not in self._exact:
            self._exact[dtype] = torch.equal(weight.to(dtype).to(weight.dtype), weight)
        # Unsloth's is in 16 bits itself, which head.py would multiply as they are.
        return weight.to(dtype) if self._exact[dtype] else weight.float()

    def notes(self) -> list[str]:
        """Notes that have not been reported yet."""
        said, self._notes = self._notes, []
        return said

    def settle(self, backend: Any) -> None:
        """Before each row: takes the first way whose results agree with those of blocks in the backend's state."""
        if not self._ways:
            return
        state = state_of(backend)
        if state.weights != self._weights:
            fit = fits(backend.model)
            # They may work with weights of another type, on the other rank too.
            self._others = set() if self._weights else self._others
            self._left = [way for way in self._ways if (fit or not way.fused) and way not in self._others]
            self._weights, self._chosen = state.weights, {}
        if state not in self._chosen:
            self._chosen[state] = self._tried(backend, state)
        if self._chosen[state] is not self.way:
            self._take(backend, self._chosen[state])

    def falls_back(self, backend: Any, error: Exception) -> bool:
        """After an error on a row: drops the way that it was computed in. Rows can then be computed again.

        False where that would not help: nothing was compiled, or memory is what lacks.
        """
        if self.way is BLOCKS or is_out_of_memory(error):
            return False
        forget(error)
        self._drop(backend, error)
        return True

    def failed(self) -> list[bool]:
        """For each way whether rows can no longer be computed in it here."""
        return [self._weights is not None and way not in self._left for way in self._ways]

    def leave(self, backend: Any, failed: list[bool]) -> None:
        """Drops the ways that have failed on one of the ranks: all compute in the same."""
        gone = {way for way, one in zip(self._ways, failed, strict=True) if one}
        self._others |= gone
        lost = [way for way in self._left if way in gone]
        if not lost:
            return
        self._left = [way for way in self._left if way not in gone]
        for way in lost:
            self._note(f"the learner goes without {way.name}: it fails on another rank")
        self._keep(backend)

    def _tried(self, backend: Any, state: State) -> Way:
        if self.way is not BLOCKS:
            self._take(backend, BLOCKS)
        if not self._left:
            return BLOCKS
        with untouched(backend):
            rows = trial_rows(backend.vocabulary, PROMPT, LENGTHS)
            measured = self._measured(backend, rows, state)
            if measured is None:
                return BLOCKS
            wanted, within = measured
            while self._left:
                self._take(backend, self._left[0])
                try:
                    why = _why_not(backend, rows, wanted, within)
                except Exception as error:
                    if self.falls_back(backend, error):
                        continue
                    # For a lack of memory, for example; the next request tries again.
                    self._take(backend, BLOCKS)
                    raise
                if why is None:
                    return self.way
                self._drop(backend, why)
        return BLOCKS

    def _measured(self, backend: Any, rows: list[Any], state: State) -> tuple[Computed, Limits] | None:
        """What blocks compute of a trial's rows, and by how much other ways may differ. None, with a note, where that
        cannot be told; only a lack of memory is raised."""
        try:
            wanted = computed_rows(backend, [rows], state.adapted)
            if wanted.finite():
                within = limits(backend, rows, wanted, state.adapted)
                if state.adapted:
                    self._try_output_layer(backend, wanted.states)
                return wanted, within
            # Other ways would seem to differ. They are tried in the next state, which may be bf16.
            why = f"overflows {state.precision}"
        except Exception as error:
            if is_out_of_memory(error):
                raise
            # The update may be possible all the same. If blocks cannot compute its rows either, their error is told.
            forget(error)
            why = f"fails: {reason(error)}"
        self._note(f"the learner computes in blocks on {backend.placed()}: the trial {why}")
        return None

    @torch.no_grad()
    def _try_output_layer(self, backend: Any, states: torch.Tensor) -> None:
        """Falls back to f32 where the results in 16 bits differ."""
        half = backend.output_weight()
        if half.dtype not in head.HALVES:
            return
        hidden = states[:SCORED].to(half.device)
        numbers = torch.arange(len(hidden))

        def scored(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            scores = head.score(hidden, weight, numbers, numbers % len(half), 1.0, torch.ones_like)
            return scores.logprobs, scores.gradient

        try:
            ours, theirs = scored(half), scored(half.float())
            same = difference(ours[0], theirs[0]) <= SAME["f32"] and difference(ours[1], theirs[1]) <= SAME["bf16"]
            why = None if same else f"in {half.dtype} it gives something else"
        except Exception as error:
            if is_out_of_memory(error):
                raise
            why = reason(error)
        if why:
            self._exact[half.dtype] = False
            self._note(f"the learner's output layer computes in f32 on {backend.placed()}: {why}")

    def _drop(self, backend: Any, why: Exception | str) -> None:
        """The current way, unless it is for damaged code of an earlier process; all where nothing can be compiled."""
        lacks = missing_toolchain(why) if isinstance(why, Exception) else None
        if isinstance(why, Exception) and not (lacks or self._mended) and (damaged := without_damaged()):
            # Once: a full disk leaves such files again and again.
            self._mended = True
            # Made of what is forgotten.
            self._attend = None
            self._note(f"compiled code of an earlier run was damaged and is made anew (files: {damaged})")
        elif lacks:
            self._left = []
            self._note(f"the learner compiles nothing on {backend.placed()}, and is slower for it: {lacks}")
        else:
            self._left = [way for way in self._left if way is not self.way]
            text = reason(why) if isinstance(why, Exception) else why
            self._note(f"the learner goes without {self.way.name} on {backend.placed()}: {text}")
        self._keep(backend)

    def _keep(self, backend: Any) -> None:
        """Blocks until the next row; what was chosen stays where it is left."""
        kept = (*self._left, BLOCKS)
        self._chosen = {state: way for state, way in self._chosen.items() if way in kept}
        self._take(backend, BLOCKS)

    def _note(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._notes.append(text)

    def _take(self, backend: Any, way: Way) -> None:
        if (way.one_call or way.layers) and (why := prepare()):
            self._note(f"what the learner compiles is not kept for later runs: {why}")
        self.way = way
        if way.one_call and self._attend is None:
            # Once: code of layers is for this very function.
            self._attend = torch.compile(flex_attention, **COMPILED)
        compiled = COMPILED if way.layers else None
        compile_values(compiled)
        self.fused = FusedModel(backend._causal.model, compiled) if way.fused else None
        for layer in backend._causal.model.layers:
            if way.layers and not way.fused:
                layer.compile(**COMPILED)
            else:
                layer._compiled_call_impl = None


def rows_for(device: torch.device) -> Rows:
    return Rows(ON_A_CARD if device.type == "cuda" else ())


def _why_not(backend: Any, rows: list[Any], wanted: Computed, within: Limits) -> str | None:
    """What the way in use computes otherwise than blocks, in words."""
    alone = [[one] for one in rows]
    # In one row, and separately: two lengths. Without gradients, as for the probe of an update, layers are compiled
    # anew.
    learning = (([rows], True), (alone, True), ([rows], False))
    for packed, learns in learning if wanted.slopes else (([rows], False), (alone, False)):
        found = computed_rows(backend, packed, learns)
        for what, much, most in compared(found, wanted, within):
            # A comparison with NaN is false.
            if not much <= most:
                words = what if learns else f"{what} without gradients"
                return f"{words} differ by {much:.2g} from those of blocks (limit {most:.2g})"
    return None
