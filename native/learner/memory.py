"""Measures the memory of an update, its peak and the amount before it; and returns freed memory."""

import contextlib
import ctypes
import gc
import resource
import sys
import traceback
from pathlib import Path

import torch

STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def bytes_of(file: Path, key: str) -> int:
    """Of a line such as `VmRSS:  100 kB`, in the files by which Linux tells of memory."""
    for line in file.read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(key)


def forget(error: BaseException) -> None:
    """Clears the frames of an exception, and those of its causes.

    A traceback keeps the variables of each of its functions: after a lack of memory the very activations that filled
    it, for as long as the exception exists. Functions that are still running keep theirs. The next collection is of
    everything.
    """
    gc.unfreeze()
    known: set[int] = set()
    behind: list[BaseException | None] = [error]
    while behind:
        one = behind.pop()
        if one is None or id(one) in known:
            continue
        known.add(id(one))
        traceback.clear_frames(one.__traceback__)
        behind += [one.__cause__, one.__context__]


FULL = 32
"""After so many requests a collection is of everything once."""
_kept = 0


def keep(device: torch.device) -> None:
    """After a request that succeeded on a card: what exists now, lives on. Later collections leave it out, until a
    request fails (`forget`), and once in FULL requests.

    Libraries and compiled code are a million objects, which a collection after each update would go through.
    """
    global _kept
    if device.type != "cuda":
        return
    _kept += 1
    (gc.freeze if _kept % FULL else gc.unfreeze)()


def give_back(device: torch.device, least: int = 2**30) -> None:
    """Returns freed memory: on a GPU all that PyTorch has cached, to the system if it is at least this many bytes.

    PyTorch caches freed blocks of a GPU, where the engine cannot use them. glibc keeps freed memory between blocks
    still in use: after an update that is most of its activations, and the engine needs it now. Allocating small amounts
    again for each update would cost more than they are worth.
    """
    if device.type == "cuda":
        # Reference cycles are freed by the collector alone.
        gc.collect()
        torch.cuda.empty_cache()
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    # Other C libraries than glibc have neither function.
    if not hasattr(libc, "mallinfo2") or not hasattr(libc, "malloc_trim"):
        return
    libc.mallinfo2.restype = _MallocInfo
    if libc.mallinfo2().fordblks >= least:
        libc.malloc_trim(0)


class _MallocInfo(ctypes.Structure):
    """struct mallinfo2; `fordblks` is the number of freed bytes that are kept."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd")]
    _fields_ += [(name, ctypes.c_size_t) for name in ("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


class PeakMemory:
    """Bytes of this process (CPU) or of its tensors (CUDA), from now on."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device if device.type == "cuda" else None
        if self._cuda:
            torch.cuda.reset_peak_memory_stats(self._cuda)
            self.loaded = torch.cuda.memory_allocated(self._cuda)
            return
        if sys.platform == "linux":
            # "5" resets the kernel's peak to the current resident size. Where that fails, the old peak stays.
            with contextlib.suppress(OSError):
                _CLEAR.write_text("5")
            self.loaded = bytes_of(STATUS, "VmRSS")
        else:
            self.loaded = _process_peak()

    @property
    def peak(self) -> int:
        if self._cuda:
            return torch.cuda.max_memory_allocated(self._cuda)
        return bytes_of(STATUS, "VmHWM") if sys.platform == "linux" else _process_peak()

    def report(self) -> dict[str, int]:
        return {"peak": self.peak, "loaded": self.loaded}


def _process_peak() -> int:
    """Over the whole life of the process. macOS counts bytes, the others kibibytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
