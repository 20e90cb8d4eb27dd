"""bf16 products on a CPU that has instructions for them, where a trial finds them close to those of f32.

With AVX512-BF16 they halve a pass of Qwen2.5-0.5B (docs/speed.md). AMX has not been met: tests name it themselves.
"""

from typing import Any

import torch

from .packing_check import EACH, LENGTHS, PROMPT, Limits, compared, computed_rows, trial_rows, untouched, whole_difference
from .quantised import weights_in
from .rounding import limits

LEAST_WEIGHTS = 100_000_000
"""In smaller models other work than products takes most of a step."""


def instructions() -> str | None:
    if torch.cpu._is_amx_tile_supported():
        return "AMX"
    return "AVX512-BF16" if torch.cpu._is_avx512_bf16_supported() else None


def settle(backend: Any) -> str | None:
    """Has a backend that computes in f32 compute in bf16, for good, where hidden states and the gradient of a trial
    differ by no more than rounding moves them, and no parameter's as a lost one does. (The trial's tokens are random,
    and so are its adapters: of Qwen2.5-0.5B they moved one matrix's gradient by 0.54 and the whole by 0.18; text and
    adapters before their first update moved them by 0.27 and 0.04.) Returns a note with the differences, None where
    there was no trial."""
    have = instructions()
    if have is None or weights_in(backend.model) < LEAST_WEIGHTS:
        return None
    rows = trial_rows(backend.vocabulary, PROMPT, LENGTHS)
    with untouched(backend):
        wanted = computed_rows(backend, [rows])
        within = limits(backend, rows, wanted, True, "bf16")
        backend.compute_in("bf16")
        halved = computed_rows(backend, [rows])
    whole = whole_difference(halved, wanted)
    found = [
        *compared(halved, wanted, Limits(within.states, EACH["bf16"])),
        ("gradients", whole, within.slopes),
    ]
    # A comparison with NaN is false.
    apart = [(what, much, most) for what, much, most in found if not much <= most]
    for what, much, most in apart[:1]:
        backend.compute_in("f32")
        return f"the learner computes in f32: with bf16 products {what} differ by {much:.2g} (limit {most:.2g})"
    backend.compute_in("bf16", for_good=True)
    _, states, _ = found[0]
    return (
        f"the learner multiplies in bf16 by {have}: in a trial hidden states differ by {states:.2g} from those of f32, "
        f"gradients by {whole:.2g}"
    )
