"""Several ranks compute the update of one: the same gradients, the same numbers about it, and the same adapter."""

import pytest
import torch
from batches import step_message, write_random_batch
from learner.ranks import digest
from learner.shares import dealt
from rank_jobs import apart, cases, check_same_as_alone, computed, job

FAULTS = ["memory", "none", "refused", "other", "none", "drift", "none", "repeat", "overflow"]


@pytest.fixture(scope="module")
def one_and_two(tmp_path_factory):
    """What one process finds for each of the named cases, and two ranks for these and then for each of FAULTS.

    Once for all tests: a process takes seconds to load PyTorch.
    """
    folder = tmp_path_factory.mktemp("ranks")
    named = cases(folder)
    batch = write_random_batch(folder / "batch.safetensors", groups=5)
    request = step_message(batch, folder, microBatchTokens=60) | {"scaled": True}
    alone, both = folder / "alone", folder / "both"
    torch.save(job(folder, named.values()), alone)
    torch.save(job(folder, [*named.values(), *(request | {"fault": fault} for fault in FAULTS)]), both)
    return named, computed(alone, 1)[0], computed(both, 2)


@pytest.mark.full
def test_two_ranks_compute_the_gradients_the_metrics_and_the_adapter_of_one(one_and_two):
    named, alone, both = one_and_two
    check_same_as_alone(alone, both, named, "f32")


@pytest.mark.full
@pytest.mark.parametrize(("kind", "worlds"), [("f32", (4,)), ("f64", (2, 4))])
def test_ranks_compute_the_gradients_the_metrics_and_the_adapter_of_one(tmp_path, kind, worlds):
    file = tmp_path / "job"
    named = cases(tmp_path)
    torch.save(job(tmp_path, named.values(), f64=kind == "f64"), file)
    (alone,) = computed(file, 1)
    for world in worlds:
        check_same_as_alone(alone, computed(file, world), named, kind)


@pytest.mark.full
def test_what_goes_wrong_on_one_rank_is_the_same_for_all(one_and_two):
    named, _, both = one_and_two
    of_each = [dict(zip(enumerate(FAULTS), done[len(named) :], strict=True)) for done in both]
    good = [found[1, "none"] for found in of_each]
    for name in of_each[0]:
        one, other = (found[name] for found in of_each)
        fault = name[1]
        if fault in ("memory", "refused", "other", "drift"):
            assert torch.equal(one["weights"], one["before"]) and torch.equal(other["weights"], other["before"])
            assert one["memory"] == other["memory"] == (fault == "memory")
            # The next update is that of ranks on which nothing has failed.
        else:
            assert torch.equal(one["weights"], other["weights"]) and torch.equal(one["weights"], good[0]["weights"])
            assert one["metrics"]["overflows"] == (fault == "overflow")
    first, last = of_each
    assert first[2, "refused"]["said"] == last[2, "refused"]["said"] == "this rank refuses"
    assert first[3, "other"]["said"] == "rank 1: ValueError: of this rank"
    assert all(found[5, "drift"]["error"] == "Refused" for found in of_each)
    assert first[5, "drift"]["said"].startswith("the ranks of the learner have different adapters")


@pytest.mark.full
def test_a_way_of_computing_that_fails_on_one_rank_is_left_by_all(tmp_path):
    batch = write_random_batch(tmp_path / "batch.safetensors", groups=5)
    request = step_message(batch, tmp_path, microBatchTokens=60)
    file = tmp_path / "job"
    torch.save(job(tmp_path, [request | {"fault": fault} for fault in ("none", "way", "none")], ways=True), file)
    first, last = computed(file, 2)
    assert [one["failed"] for one in first] == [one["failed"] for one in last] == [[False], [True], [True]]
    assert [one["way"] for one in first] == [one["way"] for one in last] == ["fused layers", "blocks", "blocks"]
    assert first[1]["notes"] == ["the learner goes without fused layers: it fails on another rank"]
    assert last[1]["notes"] == ["the learner goes without fused layers on cpu: RuntimeError: no such kernel"]
    for one, other in zip(first, last, strict=True):
        assert torch.equal(one["weights"], other["weights"])
        assert apart(first[0]["gradients"][0], one["gradients"][0]) < 1e-5


@pytest.mark.full
def test_a_rank_that_dies_is_not_waited_for(tmp_path):
    batch = write_random_batch(tmp_path / "batch.safetensors", groups=5)
    request = step_message(batch, tmp_path, microBatchTokens=60)
    file = tmp_path / "job"
    torch.save(job(tmp_path, [request | {"fault": "death"}]), file)
    ((first,),) = computed(file, 2, dead={1})
    assert first["error"] == "LostRanks" and first["said"].startswith("rank 0 has lost the others at `rows`: ")


def test_rows_are_dealt_by_their_cost():
    assert dealt([5.0, 1.0, 1.0, 1.0, 1.0, 1.0], 2) == [[0], [1, 2, 3, 4, 5]]
    assert dealt([1.0], 3) == [[0], [], []]
    costs = [float(1 + number * 7 % 11) for number in range(40)]
    loads = [sum(costs[row] for row in hand) for hand in dealt(costs, 4)]
    assert sorted(row for hand in dealt(costs, 4) for row in hand) == list(range(40))
    assert max(loads) < 1.05 * sum(costs) / 4


def test_a_digest_shows_a_changed_bit_and_an_exchange():
    numbers = torch.randn(1000)
    changed = numbers.clone()
    changed.view(torch.int32)[77] ^= 1
    swapped = numbers.clone()
    swapped[3], swapped[4] = numbers[4], numbers[3]
    whole = [digest([one]) for one in (numbers, changed, swapped)]
    assert len(set(whole)) == 3 and digest([numbers.clone()]) == whole[0]
    assert digest([numbers[:500], numbers[500:]]) != digest([numbers[500:], numbers[:500]])
