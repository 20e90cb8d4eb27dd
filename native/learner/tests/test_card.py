"""On a card each way to compute a row is tried before it counts; here PyTorch's compiler makes no code, but traces."""

import learner.backend
import pytest
import torch
from batches import open_settings, step_settings, write_tree_batch
from learner import card, flex, head
from learner.batch import read_batch
from learner.card import BLOCKS, ON_A_CARD, Rows
from learner.packing import plan
from learner.session import Session
from test_flex import computed, furthest, made, uncompiled  # noqa: F401
from torch.utils._python_dispatch import TorchDispatchMode

from models import make_model, write_gguf

WAYS = tuple(way for way in ON_A_CARD if not way.fused)
pytestmark = [pytest.mark.full, pytest.mark.usefixtures("uncompiled")]


@pytest.fixture
def as_on_a_card(monkeypatch):
    """Every PeftBackend tries the ways of a card in which PEFT computes the layers."""
    monkeypatch.setattr(learner.backend, "rows_for", lambda device: Rows(WAYS))


def computed_in(way, backend, packs):
    backend.rows = Rows()
    backend.rows._take(backend, way)
    return computed(backend, packs)


@pytest.fixture
def backend(as_on_a_card, tmp_path, silent):
    return made("qwen2", tmp_path, silent)


@pytest.fixture
def packs(tmp_path):
    return plan(read_batch(write_tree_batch(tmp_path / "batch.safetensors", groups=8), 96), 4096)


def test_the_first_way_that_works_is_taken_and_gives_what_blocks_give(backend, packs):
    random = torch.get_rng_state()
    backend.rows.settle(backend)
    assert backend.rows.way is WAYS[0] and backend.notes() == []
    assert all(parameter.grad is None for parameter in backend.trainable())
    assert torch.equal(torch.get_rng_state(), random)
    states, gradients = computed(backend, packs)
    backend.rows._take(backend, BLOCKS)
    wanted, slopes = computed(backend, packs)
    assert torch.allclose(states, wanted, atol=1e-5)
    assert furthest(gradients, slopes) < 1e-5


def test_layers_are_traced_once_for_all_rows(as_on_a_card, tmp_path, silent, monkeypatch):
    """The first layer, whose input needs no gradient, all others, and any without gradients.

    Whole: torch.compile(fullgraph=True) raises where it would leave a layer.
    """
    backend = made("qwen2", tmp_path, silent, shape={"num_hidden_layers": 4})
    graphs = []

    def counting(graph, inputs):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setitem(card.COMPILED, "backend", counting)
    backend.rows.settle(backend)
    assert backend.rows.way is WAYS[0]
    for graph in graphs:
        assert len([node for node in graph.graph.nodes if "flex_attention" in str(node.target)]) == 1
    for seed, groups in enumerate((3, 5, 9, 14)):
        batch = read_batch(write_tree_batch(tmp_path / f"{seed}.safetensors", groups=groups, seed=seed), 96)
        for pack in plan(batch, 4096):
            backend.hidden(pack).sum().backward()
    assert len(graphs) == 3


def test_fused_layers_come_first_and_are_traced_once_for_all(as_on_a_card, tmp_path, silent, packs, monkeypatch):
    """One graph of a layer, one of what follows the last; both again where nothing is trained."""
    backend = made("qwen2", tmp_path, silent, shape={"num_hidden_layers": 3})
    wanted, slopes = computed_in(BLOCKS, backend, packs)
    graphs = []

    def counting(graph, inputs):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setitem(card.COMPILED, "backend", counting)
    backend.rows = Rows(ON_A_CARD)
    states, gradients = computed(backend, packs)
    assert backend.rows.way is ON_A_CARD[0] and backend.rows.way.fused and backend.notes() == []
    assert torch.allclose(states, wanted, atol=1e-5)
    assert furthest(gradients, slopes) < 1e-5
    assert len(graphs) == 4


def test_all_weights_are_trained_without_fused_layers(tmp_path, silent, monkeypatch):
    backend = made("qwen2", tmp_path, silent, lora=None)
    backend.rows = Rows(ON_A_CARD[:1])
    backend.rows.settle(backend)
    assert backend.rows.way is BLOCKS and backend.rows.fused is None and backend.notes() == []


@pytest.mark.parametrize("broken", [1, 2])
def test_what_cannot_be_compiled_is_left_and_a_line_says_why(backend, packs, monkeypatch, broken):
    settled, backend.rows = backend.rows, Rows()
    wanted, slopes = computed(backend, packs)
    backend.rows = settled
    calls = []

    def failing(graph, inputs):
        calls.append(graph)
        if len(calls) <= broken:
            raise RuntimeError("no such kernel\nand more")
        return graph.forward

    monkeypatch.setitem(card.COMPILED, "backend", failing)
    states, gradients = computed(backend, packs)
    assert backend.rows.way is (*WAYS, BLOCKS)[broken]
    notes = backend.notes()
    assert len(notes) == broken and backend.notes() == []
    for way, note in zip(WAYS, notes, strict=False):
        assert note.startswith(f"the learner goes without {way.name} on cpu: ") and "\n" not in note
    assert torch.allclose(states, wanted, atol=1e-5)
    assert furthest(gradients, slopes) < 1e-5


def test_what_cannot_be_compiled_without_gradients_is_left(backend, monkeypatch):
    """As the probe of an update computes."""

    def failing(graph, inputs):
        if not torch.is_grad_enabled():
            raise RuntimeError("no such kernel")
        return graph.forward

    monkeypatch.setitem(card.COMPILED, "backend", failing)
    backend.rows.settle(backend)
    assert backend.rows.way is BLOCKS and len(backend.notes()) == len(WAYS)


@pytest.mark.parametrize("wrong", ["mask", "nan"])
def test_numbers_other_than_those_of_blocks_are_caught(backend, packs, monkeypatch, wrong):
    """A kernel that sees what comes later; one that gives no numbers."""
    attend = flex.FlexLayout.attend

    def otherwise(self, query, key, value, *rest):
        if wrong == "nan":
            return attend(self, query, key, value, *rest) * float("nan")
        return attend(self, query, key, value.roll(-1, 2), *rest)

    monkeypatch.setattr(flex.FlexLayout, "attend", otherwise)
    backend.rows.settle(backend)
    assert backend.rows.way is BLOCKS
    assert all("differ by" in note and "from those of blocks" in note for note in backend.notes())


def test_lack_of_memory_is_no_reason_to_leave_a_way(backend, packs, monkeypatch):
    def full(graph, inputs):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(card, "computed_rows", lambda *_: (_ for _ in ()).throw(MemoryError()))
        with pytest.raises(MemoryError):
            backend.hidden(packs[0])
    assert backend.rows.way is BLOCKS and backend.notes() == []
    backend.hidden(packs[0])
    assert backend.rows.way is WAYS[0]


def test_an_update_says_what_is_to_be_said_once_and_counts_padding(as_on_a_card, tmp_path, silent, monkeypatch):
    def failing(graph, inputs):
        raise RuntimeError("no such kernel")

    batch = write_tree_batch(tmp_path / "batch.safetensors")
    file = write_gguf(make_model("qwen2"), tmp_path / "model.gguf")
    whole = Session(open_settings(file), silent).step(step_settings(batch, tmp_path / "whole"), silent)
    assert whole["notes"] == [] and whole["tokens"]["padding"] > 0
    assert (whole["tokens"]["computed"]) % flex.SQUARE == 0
    torch.compiler.reset()
    monkeypatch.setitem(card.COMPILED, "backend", failing)
    session = Session(open_settings(file), silent)
    first = session.step(step_settings(batch, tmp_path / "0001"), silent)
    said = [note.partition(" on ")[0] for note in first["notes"]]
    assert said == [f"the learner goes without {way.name}" for way in WAYS]
    assert first["tokens"]["padding"] == 0 and first["loss"] == pytest.approx(whole["loss"], abs=1e-5)
    assert session.step(step_settings(batch, tmp_path / "0002"), silent)["notes"] == []


class Conversions(TorchDispatchMode):
    """Counts conversions between types."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function is torch.ops.aten._to_copy.default
        return function(*args, **(kwargs or {}))


class TestOutputLayer:
    @pytest.fixture(autouse=True)
    def products_of_a_card(self, monkeypatch):
        """Exact products of 16-bit numbers, summed in f32."""
        monkeypatch.setattr(head, "in_halves", lambda device: True)
        monkeypatch.setattr(head, "multiply", lambda a, b, out: torch.mm(a.float(), b.float(), out=out))

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_log_probabilities_in_16_bits_are_those_of_f32(self, dtype):
        torch.manual_seed(0)
        hidden, weight = torch.randn(40, 64) * 4, (torch.randn(300, 64) / 4).to(dtype)
        sources, targets = torch.arange(40), torch.randint(300, (40,))
        slope = lambda logprobs: torch.linspace(-1, 1, 40)  # noqa: E731
        ours = head.score(hidden, weight, sources, targets, 0.8, slope)
        theirs = head.score(hidden, weight.float(), sources, targets, 0.8, slope)
        assert torch.allclose(ours.logprobs, theirs.logprobs, atol=3e-4 if dtype == torch.bfloat16 else 1e-5)
        assert torch.allclose(ours.entropy, theirs.entropy, atol=3e-4)
        cosine = torch.nn.functional.cosine_similarity(ours.gradient.flatten(), theirs.gradient.flatten(), dim=0)
        assert cosine > 0.99999
        # A rounded state alone would be off by much more.
        rounded = head.score(hidden.to(dtype).float(), weight.float(), sources, targets, 0.8)
        much = (rounded.logprobs - theirs.logprobs).abs().mean()
        assert (ours.logprobs - theirs.logprobs).abs().mean() < much / 50

    def test_16_bits_are_taken_where_they_hold_the_weights(self, backend):
        weight = backend._causal.lm_head.weight
        # The file's weights are exact in f16 (models.py), and not in bf16.
        assert backend.output_weight() is weight
        backend.precision = "f16"
        assert backend.output_weight().dtype == torch.float16
        backend.precision = "bf16"
        assert backend.output_weight() is weight
        weight.requires_grad_(True)
        backend.precision = "f16"
        assert backend.output_weight() is weight

    def test_a_weight_that_is_not_exact_in_16_bits_is_converted_once(self):
        rows, weight = Rows(), torch.full((3, 2), 1 + 2**-10)
        with Conversions() as first:
            assert rows.output_weight(weight, torch.bfloat16) is weight
        with Conversions() as later:
            assert rows.output_weight(weight, torch.bfloat16) is weight
        assert first.count > 0 and later.count == 0

    def test_a_weight_of_16_bits_goes_on_in_f32_too(self):
        """Unsloth's: in 16 bits head.py would multiply it as it is."""
        rows, weight = Rows(), torch.ones(3, 2, dtype=torch.float16)
        assert rows.output_weight(weight, torch.float16) is weight
        rows._exact[torch.float16] = False
        assert rows.output_weight(weight, torch.float16).dtype == torch.float32

    def test_an_output_layer_that_gives_something_else_goes_on_in_f32(self, backend, packs, monkeypatch):
        backend.precision = "f16"
        with monkeypatch.context() as patched:
            patched.setattr(head, "multiply", lambda a, b, out: torch.mm(a.float(), b.float(), out=out).mul_(1.1))
            backend.rows.settle(backend)
        assert backend.output_weight().dtype == torch.float32
        (note,) = backend.notes()
        assert note.startswith("the learner's output layer computes in f32 on cpu: ")
