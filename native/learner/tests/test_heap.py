"""Updates of a CPU reuse their memory where there is room for the holes that this leaves."""

import subprocess
import sys
from pathlib import Path

import learner.heap
import pytest
import torch
from learner.heap import APART, KEPT, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, NO_TRIM, TOLD, TRIM, Heap

CPU = torch.device("cpu")
GB = 10**9


class Machine:
    """What the kernel says, and what glibc was told."""

    def __init__(self, folder, monkeypatch):
        self.told = {}
        self._status, self._memory = folder / "status", folder / "meminfo"
        monkeypatch.setattr(learner.heap, "STATUS", self._status)
        monkeypatch.setattr(learner.heap, "MEMORY", self._memory)
        monkeypatch.setattr(learner.heap, "_limit", lambda: float("inf"))
        monkeypatch.setattr(learner.heap.ctypes, "CDLL", lambda name: self)
        monkeypatch.setenv("GLIBC_TUNABLES", TOLD)

    def mallopt(self, parameter, value):
        self.told[parameter] = value

    def has(self, resident, peak, free):
        self._status.write_text(f"VmHWM:\t{peak // 1024} kB\nVmRSS:\t{resident // 1024} kB\n")
        self._memory.write_text(f"MemAvailable:   {free // 1024} kB\n")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch)


KEEPS = {M_MMAP_THRESHOLD: KEPT, M_TRIM_THRESHOLD: NO_TRIM}
GIVES = {M_MMAP_THRESHOLD: APART, M_TRIM_THRESHOLD: TRIM}


def test_memory_is_kept_after_an_update_that_took_a_third_of_what_is_free(machine):
    heap = Heap(CPU, 1)
    machine.has(GB, GB, 7 * GB)
    heap.begin()
    assert machine.told == {}
    machine.has(GB, 3 * GB, 7 * GB)
    heap.updated()
    assert machine.told == KEEPS
    # The heap's own holes are no lack of memory.
    machine.has(4 * GB, 5 * GB, 4 * GB)
    heap.updated()
    assert heap.keeps


def test_memory_is_given_back_where_it_has_become_short(machine):
    heap = Heap(CPU, 1)
    machine.has(GB, 3 * GB, 7 * GB)
    heap.begin()
    heap.updated()
    machine.has(GB, 5 * GB, 5 * GB)
    heap.begin()
    assert machine.told == GIVES


@pytest.mark.parametrize(("sharers", "keeps"), [(1, True), (2, False)])
def test_ranks_share_what_is_free(machine, sharers, keeps):
    heap = Heap(CPU, sharers)
    machine.has(GB, 3 * GB, 7 * GB)
    heap.begin()
    heap.updated()
    assert heap.keeps is keeps


def test_a_containers_limit_counts(machine, monkeypatch):
    monkeypatch.setattr(learner.heap, "_limit", lambda: 5 * GB)
    heap = Heap(CPU, 1)
    machine.has(GB, 3 * GB, 7 * GB)
    heap.begin()
    heap.updated()
    assert not heap.keeps


@pytest.mark.parametrize(("most", "left"), [("1000", 700), ("max", float("inf"))])
def test_what_a_limit_leaves(tmp_path, most, left):
    (tmp_path / "memory.current").write_text("300\n")
    (tmp_path / "memory.max").write_text(f"{most}\n")
    assert learner.heap._limit(tmp_path) == left


def test_what_a_user_tells_glibc_stays_and_a_card_needs_nothing(machine, monkeypatch):
    machine.has(GB, 3 * GB, 7 * GB)
    heaps = [Heap(torch.device("cuda"), 1)]
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=0")
    heaps.append(Heap(CPU, 1))
    for heap in heaps:
        heap.begin()
        heap.updated()
    assert machine.told == {}


def test_hone_tells_glibc_so():
    source = Path(__file__).parents[3] / "src/core/learn/environment.ts"
    assert f'"{TOLD}"' in source.read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="of glibc alone")
def test_glibc_takes_both_thresholds():
    # In a process of its own, which it changes for good.
    told = [*KEEPS.items(), *GIVES.items()]
    program = f"import ctypes; libc = ctypes.CDLL(None); print([libc.mallopt(*one) for one in {told}])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[1, 1, 1, 1]"
