"""Several ranks compute the update of one: the same gradients, the same numbers about it, and the same adapter."""

import os
import socket
import subprocess
import sys

import pytest
import torch
from batches import OBJECTIVES, step_settings, write_random_batch, write_tree_batch
from learner.ranks import digest
from learner.shares import dealt

from models import make_model, write_gguf

PROGRAM = os.path.join(os.path.dirname(__file__), "rank_program.py")
LIMITS = {"f32": 1e-5, "f64": 1e-12}
"""Difference of the gradients of several ranks to those of one, relative to their norm."""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def computed(file, world, dead=()):
    """What the ranks of a job have found, rank by rank, those that die left out."""
    found = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "PYTHONPATH": os.pathsep.join(sys.path)}
    ranks = [
        subprocess.Popen(
            [sys.executable, PROGRAM, str(number), str(world), str(file)],
            env=os.environ | found,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in range(world)
    ]
    try:
        said = [rank.communicate(timeout=300)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    codes = [7 if number in dead else 0 for number in range(world)]
    assert [rank.returncode for rank in ranks] == codes, "\n".join(said)
    found = [number for number in range(world) if number not in dead]
    return [torch.load(f"{file}.{world}.{number}", weights_only=False) for number in found]


def cases(folder):
    """Groups with shared prefixes, trees, one row and many, mini-batches, epochs, KL, kinds of ratio and weight."""
    random = write_random_batch(folder / "random.safetensors", groups=5)
    tree = write_tree_batch(folder / "tree.safetensors", groups=4)
    by_sequence = {"mode": "sequence-mask", "low": 0.0, "high": 3.0}
    return {
        "one row": step_settings(random, folder),
        "rows": step_settings(tree, folder, microBatchTokens=60),
        "mini-batches and KL": step_settings(
            random, folder, microBatchTokens=60, minibatches=2, epochs=2, klCoefficient=0.1, seed=7
        ),
        "rollouts left out": step_settings(
            tree, folder, objective=OBJECTIVES["grpo"], rollouts=40, importance=by_sequence, minibatches=3
        ),
        "one ratio of a sequence": step_settings(
            random, folder, objective=OBJECTIVES["gspo"], epochs=2, earlier={"checkpoint": None}, maxGradNorm=0.01
        ),
        "imitation": step_settings(tree, folder, microBatchTokens=60, epochs=2, updateTrajectories=9, warmup=0.1),
        "a constant": step_settings(tree, folder, objective=OBJECTIVES["dr-grpo"], maxCompletionTokens=40),
    }


def job(folder, cases, **more):
    model = write_gguf(make_model("qwen2"), folder / "model.gguf")
    return {
        "model": str(model),
        "cases": list(cases),
        "f64": False,
        "scaled": False,
        "ways": False,
        "seconds": 600,
    } | more


def apart(one, other):
    return float((one - other).norm() / one.norm())


@pytest.mark.parametrize(
    ("kind", "worlds"),
    [
        ("f32", (2,)),
        pytest.param("f32", (4,), marks=pytest.mark.full),
        pytest.param("f64", (2, 4), marks=pytest.mark.full),
    ],
)
def test_ranks_compute_the_gradients_the_metrics_and_the_adapter_of_one(tmp_path, kind, worlds):
    file = tmp_path / "job"
    named = cases(tmp_path)
    torch.save(job(tmp_path, named.values(), f64=kind == "f64"), file)
    (alone,) = computed(file, 1)
    for world in worlds:
        ranks = computed(file, world)
        for number, name in enumerate(named):
            wanted, first = alone[number], ranks[0][number]
            assert len(first["gradients"]) == len(wanted["gradients"])
            differences = [apart(*pair) for pair in zip(wanted["gradients"], first["gradients"], strict=True)]
            print(f"{kind}, {world} ranks, {name}: {max(differences):.2g}")
            assert max(differences) < LIMITS[kind], name
            for other in ranks[1:]:
                assert torch.equal(other[number]["weights"], first["weights"])
                assert all(map(torch.equal, other[number]["gradients"], first["gradients"]))
            same(first["metrics"], wanted["metrics"], name)


ROWS = ("microBatches", "computed", "padding")
"""Of the rows themselves, which are others."""


def same(found, wanted, name):
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            if key not in ROWS:
                same(found[key], value, f"{name}: {key}")
    elif isinstance(wanted, list):
        assert found == pytest.approx(wanted, abs=1e-4), name
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=1e-4, abs=1e-5), name
    else:
        assert found == wanted, name


def test_what_goes_wrong_on_one_rank_is_the_same_for_all(tmp_path):
    batch = write_random_batch(tmp_path / "batch.safetensors", groups=5)
    request = step_settings(batch, tmp_path, microBatchTokens=60)
    faults = ["memory", "none", "refused", "other", "none", "drift", "none", "repeat", "overflow"]
    file = tmp_path / "job"
    torch.save(job(tmp_path, [request | {"fault": fault} for fault in faults], scaled=True), file)
    of_each = [dict(zip(enumerate(faults), done, strict=True)) for done in computed(file, 2)]
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
    request = step_settings(batch, tmp_path, microBatchTokens=60)
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
def test_a_rank_that_dies_or_hangs_is_not_waited_for(tmp_path):
    batch = write_random_batch(tmp_path / "batch.safetensors", groups=5)
    request = step_settings(batch, tmp_path, microBatchTokens=60)
    file = tmp_path / "job"
    torch.save(job(tmp_path, [request | {"fault": "death"}]), file)
    ((first,),) = computed(file, 2, dead={1})
    assert first["error"] == "LostRanks" and first["said"].startswith("rank 0 has lost the others at `rows`: ")
    torch.save(job(tmp_path, [request | {"fault": "hang"}], seconds=3), file)
    (first,), (last,) = computed(file, 2)
    assert first["said"] == "rank 0 has lost the others at `rows`: no answer in 3 seconds"
    assert last["error"] == "LostRanks"


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
