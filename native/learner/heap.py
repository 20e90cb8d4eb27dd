"""Whether glibc's heap keeps what an update of a CPU frees, for its next tensors.

hone tells glibc to map each larger allocation by itself (src/core/learn/environment.ts): what is freed is the system's
at once, and leaves no holes. But the kernel then makes all pages anew, several times in a pass: updates took 1.35 times
as long for a model of 0.5B, 1.55 times for SmolLM2-135M and 1.9 times for the tiny one (bench/results/glibc-*; little
where rows are short). In the heap the tensors leave holes, which take 0.5 to 0.9 times as much memory again. So they
are there while there is room.
"""

import ctypes
import os
import sys
from pathlib import Path

import torch

from .memory import STATUS, bytes_of

TOLD = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=1048576"
"""GLIBC_TUNABLES as hone sets it. Where a user sets it, it stays."""
APART, KEPT = 2**20, 2**25
"""Bytes from which an allocation is mapped by itself; glibc takes no more than the second (mallopt(3))."""
TRIM, NO_TRIM = 2**17, 2**31 - 1
"""Free bytes at the heap's end from which they are given back; the first is glibc's own."""
ROOM = 3
"""Times the memory of an update without holes that must be there: with them it takes up to twice as much."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3

MEMORY = Path("/proc/meminfo")


def _limit(group: Path = Path("/sys/fs/cgroup")) -> float:
    """What a container's limit leaves (cgroup v2)."""
    try:
        return int((group / "memory.max").read_text()) - int((group / "memory.current").read_text())
    except (OSError, ValueError):
        return float("inf")


class Heap:
    """That of this process. `sharers`: processes like this one, among which free memory is shared out."""

    def __init__(self, device: torch.device, sharers: int) -> None:
        self._libc = ctypes.CDLL(None) if sys.platform == "linux" and device.type == "cpu" else None
        self._on = os.environ.get("GLIBC_TUNABLES") == TOLD and hasattr(self._libc, "mallopt")
        self._sharers = sharers
        self._loaded = self._needs = 0
        self.keeps = False

    def begin(self) -> None:
        """Before the updates of a request, once the kernel's peak is counted anew (memory.py)."""
        if self._on:
            self._loaded = bytes_of(STATUS, "VmRSS")
            self._choose()

    def updated(self) -> None:
        """After an update: one without holes says how much memory they take; of one with holes it is at least half."""
        if self._on:
            took = bytes_of(STATUS, "VmHWM") - self._loaded
            self._needs = max(self._needs, took // 2 if self.keeps else took)
            self._choose()

    def _choose(self) -> None:
        # What the heap has kept of updates before is free for the next.
        kept = max(0, bytes_of(STATUS, "VmRSS") - self._loaded)
        free = (min(bytes_of(MEMORY, "MemAvailable"), _limit()) + kept) / self._sharers
        keeps = 0 < self._needs * ROOM <= free
        if keeps != self.keeps:
            self.keeps = keeps
            self._libc.mallopt(M_MMAP_THRESHOLD, KEPT if keeps else APART)
            self._libc.mallopt(M_TRIM_THRESHOLD, NO_TRIM if keeps else TRIM)
