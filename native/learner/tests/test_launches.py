"""How many kernels a row launches on a card: of one attention call a layer, as many for any row."""

import pytest
import torch
from launches import counted
from learner import attention
from learner.backend import LINEAR_LAYERS, TYPES, PeftBackend, _linears_to, _with_adapter
from learner.batch import Trajectory
from learner.card import BLOCKS, Rows, Way
from learner.packing import plan_trajectories

from models import make_model

ONE_CALL = Way("one attention call", True, False)
LAYERS = 24
MATRIX_PRODUCTS = 7 * (3 + 5)
"""Of a layer's seven products with an adapter each: three forward and five backward."""


def backend_of(way):
    """Of the layers and heads of Qwen2.5-0.5B; how wide they are changes no count."""
    attention.register()
    shape = {"num_hidden_layers": LAYERS, "num_attention_heads": 14, "num_key_value_heads": 2, "hidden_size": 112}
    model = make_model("qwen2", **shape).requires_grad_(False)
    model.config._attn_implementation = attention.NAME
    _linears_to(model, TYPES["bf16"])
    backend = PeftBackend.__new__(PeftBackend)
    backend.device, backend.precision = torch.device("cpu"), "bf16"
    backend.model = _with_adapter(model, {"rank": 8, "alpha": 16, "targets": list(LINEAR_LAYERS)})
    backend._causal = backend.model.base_model.model
    backend.model.train()
    backend.rows = Rows()
    backend.rows.way = way
    return backend


def row(groups, size, prompt, own):
    generator = torch.Generator().manual_seed(0)
    members, slot = [], 0
    for group in range(groups):
        shared = torch.randint(96, (prompt,), generator=generator)
        for _ in range(size):
            ids = torch.cat((shared, torch.randint(96, (own,), generator=generator)))
            members.append(Trajectory(ids, torch.arange(len(ids)) >= prompt, group, prompt, slot))
            slot += own
    (pack,) = plan_trajectories(members, 10**6)
    return pack


def launches(backend, pack):
    """Of a pass that is the first of its update: later ones add to the gradients that are there."""
    backend.model.zero_grad()
    with counted(backend) as counter:
        backend.hidden(pack).sum().backward()
    return counter


@pytest.fixture(scope="module")
def rows():
    """4,000 positions of two shapes, and four times as many."""
    return row(3, 8, 400, 120), row(1, 12, 1600, 200), row(12, 8, 400, 120)


def test_one_call_launches_as_many_for_any_row(rows):
    assert [round(len(one.ids), -3) for one in rows] == [4000, 4000, 16_000]
    backend = backend_of(ONE_CALL)
    counts = [launches(backend, one).count for one in rows]
    assert len(set(counts)) == 1
    # Compiled layers do with fewer: of what is left out are products and attention calls alone.
    assert LAYERS * (MATRIX_PRODUCTS + 3) - 100 < counts[0] < 5600


def test_blocks_launch_more_with_every_branch(rows):
    backend = backend_of(BLOCKS)
    ours, other = (launches(backend, one) for one in rows[:2])
    assert ours.by_name["_scaled_dot_product_flash_attention_for_cpu"] == LAYERS * 24
    assert ours.count > 10_000 and other.count != ours.count
