"""Chooses how a backend computes rows: on a card the fastest of four ways that works there, each tried beforehand.

    fused layers         as the next, with few products for all adapters (fused.py); for adapters only
    compiled layers      each layer is compiled, with one attention call (flex.py) in it
    one attention call   that alone is compiled
    blocks               nothing is compiled (attention.py); the only way on a CPU

A way that PyTorch cannot compile, or whose results differ from those of blocks, is dropped, with a note. *Not run
on CUDA.*
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention.flex_attention import flex_attention

from . import head
from .attention import Layout
from .errors import is_out_of_memory
from .flex import FlexLayout, padded
from .fused_model import FusedModel, fits
from .memory import forget
from .packing import Pack
from .packing_check import SAME, computed_rows, difference, states_alone, trial_rows, untouched

COMPILED: dict[str, Any] = {"dynamic": True, "fullgraph": True}
"""Dynamic shapes, so that rows of all lengths share their code."""
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


class Rows:
    """Belongs to one backend (PeftBackend)."""

    def __init__(self, ways: tuple[Way, ...] = ()) -> None:
        """Without ways only blocks are used."""
        self._untried = list(ways)
        self._notes: list[str] = []
        self._attend: Any = None
        self._exact: dict[torch.dtype, bool] = {}
        """16-bit types that represent the output layer's weights exactly."""
        self.way = BLOCKS
        self.fused: FusedModel | None = None

    def lay_out(self, pack: Pack, device: torch.device) -> tuple[Pack, Layout | FlexLayout]:
        """The padded row, and its attention."""
        if not self.way.one_call:
            return pack, Layout(pack)
        row = padded(pack)
        return row, FlexLayout(row, device, self._attend)

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
        """Before the first row: takes the first way whose results agree with those of blocks."""
        if not fits(backend.model):
            self._untried = [way for way in self._untried if not way.fused]
        if not self._untried:
            return
        with untouched(backend):
            rows = trial_rows(len(backend.output_weight()), PROMPT, LENGTHS)
            wanted = computed_rows(backend, [rows])
            self._try_output_layer(backend, wanted[0])
            while self._untried:
                way = self._untried[0]
                self._take(backend, way)
                try:
                    why = self._why_not(backend, rows, wanted)
                except BaseException:
                    # For a lack of memory, for example; the next request tries again.
                    self._take(backend, BLOCKS)
                    raise
                if why is None:
                    self._untried.clear()
                    return
                self._untried.pop(0)
                self._notes.append(f"the learner goes without {way.name} on {backend.placed()}: {why}")
                self._take(backend, BLOCKS)

    @torch.no_grad()
    def _try_output_layer(self, backend: Any, states: torch.Tensor) -> None:
        """Falls back to f32 where the results in 16 bits differ."""
        half = backend.output_weight()
        if half.dtype not in head.HALVES:
            return
        hidden = states[:SCORED].to(half.device)
        numbers = torch.arange(len(hidden))

        def scored(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            scores = head.score(hidden, weight, numbers, numbers % len(half), 1.0, lambda logprobs, _: logprobs * 0 + 1)
            return scores.logprobs, scores.gradient

        try:
            ours, theirs = scored(half), scored(half.float())
            same = difference(ours[0], theirs[0]) <= SAME["f32"] and difference(ours[1], theirs[1]) <= SAME["bf16"]
            why = None if same else f"in {half.dtype} it gives something else"
        except Exception as error:
            if is_out_of_memory(error):
                raise
            why = _reason(error)
        if why:
            self._exact[half.dtype] = False
            self._notes.append(f"the learner's output layer computes in f32 on {backend.placed()}: {why}")

    def _take(self, backend: Any, way: Way) -> None:
        self.way = way
        self._attend = torch.compile(flex_attention, **COMPILED) if way.one_call else None
        compiled = COMPILED if way.layers else None
        if way.layers:
            # Imported here: on a CPU nothing needs the compiler.
            from torch._dynamo import config as dynamo

            # Numbers such as a norm's epsilon are constants of compiled code. With dynamic shapes they would be inputs,
            # and where activations are computed twice tensors that are written and kept.
            dynamo.specialize_float = True
        self.fused = FusedModel(backend._causal.model, compiled) if way.fused else None
        for layer in backend._causal.model.layers:
            if way.layers and not way.fused:
                layer.compile(**COMPILED)
            else:
                layer._compiled_call_impl = None

    def _why_not(self, backend: Any, rows: list[Any], wanted: tuple[torch.Tensor, torch.Tensor]) -> str | None:
        try:
            # In one row, and separately: two lengths. Without gradients, as for the probe of an update, layers are
            # compiled anew.
            found = [computed_rows(backend, [rows]), computed_rows(backend, [[one] for one in rows])]
            scored = states_alone(backend, rows)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            forget(error)
            return _reason(error)
        compared = [("hidden states without gradients", scored, wanted[0])]
        for states, slopes in found:
            compared += [("hidden states", states, wanted[0]), ("gradients", slopes, wanted[1])]
        for what, ours, theirs in compared:
            much = difference(ours, theirs)
            # A comparison with NaN is false.
            if not much <= SAME[backend.precision]:
                return f"{what} differ by {much:.2g} from those of blocks"
        return None


def rows_for(device: torch.device) -> Rows:
    return Rows(ON_A_CARD if device.type == "cuda" else ())


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]
