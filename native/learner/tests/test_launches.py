"""How many kernels a row launches on a card: of one attention call a layer, as many for any row.

At most 1,000 for 24 layers, where the layers are fused and compiled and activations are kept; at most 1,400 where they
are computed twice.
"""

from collections import Counter

import pytest
import torch
from launches import ONE_CALL as ATTENTION
from launches import counted, counted_compiled
from learner import attention
from learner.backend import LINEAR_LAYERS, TYPES, PeftBackend, _linears_to, _with_adapter
from learner.batch import BatchSequence
from learner.card import BLOCKS, ON_A_CARD, Rows, Way
from learner.flex import padded
from learner.packing import plan_trajectories
from learner.request import Lora

from models import make_model

pytestmark = pytest.mark.full

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
    backend.model = _with_adapter(model, Lora(8, 16, list(LINEAR_LAYERS)))
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
            members.append(BatchSequence(ids, torch.arange(len(ids)) >= prompt, group, prompt, slot))
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


PRODUCTS, JOINED = 4 * (3 + 4) - 1, 1
"""Of a layer's four inputs: three products forward and four backward (fused.py). q, k and v have a bias, and so one
product less, and join its two inputs before it."""
KERNELS = 5, 4
"""Compiled, of a layer, forward and backward: two norms with the sums before them, RoPE, the activation. For a CPU the
second sum is a kernel of its own."""
ENDS = 4
"""Compiled: the last norm, its gradient, and what spreads that over the row."""
OTHERS = 23
"""Of a row: its embeddings, RoPE's angles, and the adapters' gradients."""
CHECKPOINTED = 10 + 4 + 1, 2
"""More of a layer whose activations are computed twice. In the backward pass a forward pass again, without the last
input's y and without the second sum as a kernel of its own: products, kernels, and attention. In the forward pass two
kernels: the first sum, which is kept, and RoPE's of queries apart from that of keys."""


@pytest.mark.parametrize("checkpointed", [False, True])
def test_fused_layers_launch_few(rows, monkeypatch, checkpointed):
    way = ON_A_CARD[0]
    backend = backend_of(way)
    backend.checkpointing(checkpointed)
    with counted_compiled(backend, monkeypatch) as counter:
        backend.rows._take(backend, way)

        def launched(one):
            before = counter.by_name.copy()
            backend.hidden(one).backward(torch.ones(len(one.predicting), backend._causal.config.hidden_size))
            return counter.by_name - before

        short = row(1, 2, 20, 20)
        # The first row of all joins the weights.
        launched(short)
        backend.model.zero_grad()
        first, later = launched(rows[0]), launched(short)
        kept = kept_for_backward(backend, rows[0]) if checkpointed else None
    again, more = CHECKPOINTED if checkpointed else (0, 0)
    assert first.total() == later.total() <= (1400 if checkpointed else 1000)
    products = sum(first[name] for name in ("mm", "addmm", "addmm_"))
    attention = (first["attention"], first["attention backward"])
    assert products == LAYERS * (PRODUCTS + (9 if checkpointed else 0))
    assert first["cat"] >= LAYERS * JOINED * (1 + checkpointed)
    assert attention == (LAYERS * ATTENTION[0] * (1 + checkpointed), LAYERS * ATTENTION[1])
    assert first.total() == LAYERS * (PRODUCTS + JOINED + sum(KERNELS) + sum(ATTENTION) + again + more) + ENDS + OTHERS
    if checkpointed:
        # Of a layer the sum at its beginning, as planned (src/machine/plan/activations.ts); of all RoPE's turns.
        assert kept == {((112,), torch.float32): LAYERS, ((2, 4), torch.float32): 2}


def kept_for_backward(backend, one):
    """Tensors of the row's length that autograd keeps: how many, by the shape of a position and the type."""
    kept = {}

    def keep(tensor):
        # Held, so that no later one has the same address.
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        backend.hidden(one)
    length = len(padded(one).ids)
    return Counter((tuple(each.shape[1:]), each.dtype) for each in kept.values() if each.shape[:1] == (length,))
