"""What an update freed goes back to the system, where it is much."""

import ctypes
import gc
import sys
import weakref

import learner.memory
import pytest
import torch
from learner.memory import FULL, PeakMemory, forget, give_back, keep

CARD = torch.device("cuda")


class Libc:
    """The C library, with what its malloc_trim has answered: 1 where it gave memory back."""

    def __init__(self):
        self.answers = []
        self._libc = ctypes.CDLL(None)
        self.mallinfo2 = self._libc.mallinfo2

    def malloc_trim(self, pad):
        self.answers.append(self._libc.malloc_trim(pad))


@pytest.mark.skipif(sys.platform != "linux", reason="of glibc alone")
def test_freed_memory_between_blocks_in_use_is_given_back(monkeypatch):
    # Not by the resident size: the kernel takes back pages as it likes.
    libc = Libc()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: libc)
    # Too small to be mapped each for itself.
    tensors = [torch.ones(25_000) for _ in range(1000)]
    held = tensors[::10]
    del tensors
    give_back(torch.device("cpu"), least=2**40)
    assert libc.answers == []
    give_back(torch.device("cpu"), least=50 * 10**6)
    assert libc.answers == [1]
    assert all(float(tensor.sum()) == 25_000 for tensor in held)


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux alone")
def test_the_peak_is_counted_from_now_on(tmp_path, monkeypatch):
    status, clear = tmp_path / "status", tmp_path / "clear_refs"
    monkeypatch.setattr(learner.memory, "STATUS", status)
    monkeypatch.setattr(learner.memory, "_CLEAR", clear)
    status.write_text("Name:\tpython\nVmHWM:\t  200 kB\nVmRSS:\t  100 kB\n")
    memory = PeakMemory(torch.device("cpu"))
    # Asks the kernel to forget its peak (proc_pid_clear_refs(5)).
    assert clear.read_text() == "5"
    status.write_text("Name:\tpython\nVmHWM:\t  140 kB\nVmRSS:\t   90 kB\n")
    assert memory.report() == {"peak": 140 * 1024, "loaded": 100 * 1024}


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux alone")
def test_the_kernel_says_how_much_this_process_has():
    memory = PeakMemory(torch.device("cpu"))
    assert memory.loaded > 0 and memory.peak > 0


class Held:
    pass


def cycle():
    """Freed by the collector alone."""
    held = Held()
    held.itself = held
    return weakref.ref(held)


@pytest.fixture
def unfrozen():
    yield
    gc.unfreeze()


def test_collections_leave_out_what_existed_after_a_request_until_one_fails(unfrozen):
    before = Held()
    before.itself, gone = before, weakref.ref(before)
    keep(CARD)
    del before
    later = cycle()
    gc.collect()
    assert later() is None, "what came after it is collected"
    assert gone() is not None
    forget(RuntimeError())
    gc.collect()
    assert gone() is None


def test_once_in_so_many_requests_everything_is_collected(unfrozen):
    held = Held()
    held.itself, gone = held, weakref.ref(held)
    keep(CARD)
    del held
    for _ in range(FULL):
        keep(CARD)
        gc.collect()
    assert gone() is None


def test_nothing_is_left_out_without_a_card(unfrozen):
    frozen = gc.get_freeze_count()
    keep(torch.device("cpu"))
    assert gc.get_freeze_count() == frozen
