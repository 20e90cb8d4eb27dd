"""What an update freed goes back to the system, where it is much."""

import gc
import sys
import weakref

import pytest
import torch
from learner.memory import FULL, PeakMemory, forget, give_back, keep

CARD = torch.device("cuda")


def resident():
    return PeakMemory(torch.device("cpu")).loaded


@pytest.mark.skipif(sys.platform != "linux", reason="of glibc alone")
def test_freed_memory_between_blocks_in_use_is_given_back():
    # Too small to be mapped each for itself.
    tensors = [torch.ones(25_000) for _ in range(1000)]
    held = tensors[::10]
    before = resident()
    del tensors
    give_back(torch.device("cpu"), least=2**40)
    assert resident() > before - 20e6
    give_back(torch.device("cpu"), least=50 * 10**6)
    assert resident() < before - 60e6
    assert all(float(tensor.sum()) == 25_000 for tensor in held)


def test_the_peak_is_counted_from_now_on():
    # Garbage of earlier tests, collected later, would count as freed.
    gc.collect()
    big = torch.ones(20_000_000)
    del big
    memory = PeakMemory(torch.device("cpu"))
    other = torch.ones(10_000_000)
    # The 40 MB of now, without the 80 MB of before.
    assert 35e6 < memory.peak - memory.loaded < 80e6
    del other


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
