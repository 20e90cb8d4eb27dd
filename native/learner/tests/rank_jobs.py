"""Jobs of several ranks that compute updates: how they are started, and what is compared. For the tests of ranks."""

import os
import socket
import subprocess
import sys

import pytest
import torch
from batches import OBJECTIVES, step_message, write_random_batch, write_tree_batch

from models import make_model, write_gguf

PROGRAM = os.path.join(os.path.dirname(__file__), "rank_program.py")
LIMITS = {"f32": 1e-5, "f64": 1e-12}
"""Difference of the gradients of several ranks to those of one, relative to their norm."""
PATIENCE = 600
"""Seconds for a job."""


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
        said = [rank.communicate(timeout=PATIENCE)[0] for rank in ranks]
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
        "one row": step_message(random, folder),
        "rows": step_message(tree, folder, microBatchTokens=60),
        "mini-batches and KL": step_message(
            random, folder, microBatchTokens=60, minibatches=2, epochs=2, klCoefficient=0.1, seed=7
        ),
        "rollouts left out": step_message(
            tree, folder, objective=OBJECTIVES["grpo"], rollouts=40, importance=by_sequence, minibatches=3
        ),
        "one ratio of a sequence": step_message(
            random, folder, objective=OBJECTIVES["gspo"], epochs=2, earlier={"checkpoint": None}, maxGradNorm=0.01
        ),
        "imitation": step_message(tree, folder, microBatchTokens=60, epochs=2, updateTrajectories=9, warmup=0.1),
        "a constant": step_message(tree, folder, objective=OBJECTIVES["dr-grpo"], maxCompletionTokens=40),
    }


def job(folder, cases, **more):
    """Of rank_program.py."""
    model = write_gguf(make_model("qwen2"), folder / "model.gguf")
    return {
        "model": str(model),
        "cases": list(cases),
        "f64": False,
        "ways": False,
    } | more


def apart(one, other):
    return float((one - other).norm() / one.norm())


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


def check_same_as_alone(alone, ranks, names, kind):
    """Ranks find what one process does: gradients within the limit, all else of a step; and all ranks the same."""
    for number, name in enumerate(names):
        wanted, first = alone[number], ranks[0][number]
        assert len(first["gradients"]) == len(wanted["gradients"])
        differences = [apart(*pair) for pair in zip(wanted["gradients"], first["gradients"], strict=True)]
        moved = apart(wanted["weights"] - wanted["before"], first["weights"] - first["before"])
        print(f"{kind}, {len(ranks)} ranks, {name}: gradients {max(differences):.2g}, adapters {moved:.2g}")
        assert max(differences) < LIMITS[kind], name
        # Adam divides small gradients by themselves: their rounding is that of a step.
        assert moved < 100 * LIMITS[kind], name
        for other in ranks[1:]:
            assert torch.equal(other[number]["weights"], first["weights"])
            assert all(map(torch.equal, other[number]["gradients"], first["gradients"]))
        same(first["metrics"], wanted["metrics"], name)
