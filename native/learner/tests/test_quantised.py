"""Weights that stay quantised blocks: the values of gguf-py, and the updates of a model that holds these values."""

import platform

import gguf
import numpy
import pytest
import torch
from batches import open_settings, step_settings, tree_batch, write_tree_batch
from conftest import ROOT
from learner import card, ggml, packing, quantised
from learner.backend import LINEAR_LAYERS
from learner.block_types import VALUES
from learner.card import BLOCKS, ON_A_CARD, Rows
from learner.dequantise import dequantise
from learner.session import Session
from safetensors.torch import load_file
from test_flex import computed, furthest, opened, uncompiled  # noqa: F401
from test_fused import FUSED

from models import make_model, write_gguf

WIDE = {"hidden_size": 256, "intermediate_size": 512, "head_dim": 64}
"""K-quants have 256 weights to a block."""
MIXED = {"self_attn.v_proj": "Q6_K", "mlp.up_proj": "Q2_K", "mlp.down_proj": "Q5_K", "lm_head": "Q8_0"}
"""As llama.cpp's mixtures; Q2_K is no type that stays."""


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.name)
def test_values_are_those_of_gguf_bit_for_bit(kind):
    size = gguf.GGML_QUANT_SIZES[kind][1]
    # A scale of random bits is infinite or NaN in one block of 32.
    blocks = numpy.random.default_rng(0).integers(0, 256, (64, 24 * size), dtype=numpy.uint8)
    with numpy.errstate(invalid="ignore"):
        wanted = gguf.dequantize(blocks, kind)
    ours = quantised.values(torch.from_numpy(blocks), kind, torch.float32).numpy()
    known = numpy.isfinite(wanted)
    assert ours.shape == wanted.shape and 0.8 < known.mean() < 1
    assert numpy.array_equal(ours.view(numpy.uint32)[known], wanted.view(numpy.uint32)[known])


def test_values_of_a_matrix_larger_than_a_piece_are_whole(monkeypatch):
    kind = gguf.GGMLQuantizationType.Q4_0
    blocks = torch.from_numpy(gguf.quantize(numpy.random.default_rng(0).normal(size=(37, 64)).astype("f4"), kind))
    whole = quantised.values(blocks, kind, torch.float32)
    monkeypatch.setitem(quantised.PIECE, "cpu", 300)
    assert torch.equal(quantised.values(blocks, kind, torch.float32), whole)
    assert torch.equal(quantised.values(blocks, kind, torch.bfloat16), whole.bfloat16())


def pair(folder, silent, architecture="qwen2", kind="Q4_K", tied=True, shape=WIDE, others=None, **settings):
    """A model that keeps its blocks, and one with the values that gguf-py writes of them."""
    model = make_model(architecture, tied=tied, **shape)
    with torch.no_grad():
        for matrix in (parameter for parameter in model.parameters() if parameter.dim() > 1):
            # So wide a model would otherwise have attention so sharp that roundings decide.
            matrix *= 0.25
    file = write_gguf(model, folder / "blocks.gguf", kind, others=others)
    dequantise(str(file), folder / "values.gguf", "f32")
    return tuple(opened(folder / name, silent, **settings) for name in ("blocks.gguf", "values.gguf"))


@pytest.fixture
def packs(tmp_path):
    return packing.plan(tree_batch(tmp_path, groups=4), 200)


def kept(backend):
    return {
        name.removeprefix("base_model.model.model.").removesuffix(".base_layer"): module.kind.name
        for name, module in backend.model.named_modules()
        if isinstance(module, quantised.QuantisedLinear | quantised.QuantisedEmbedding)
    }


CASES = [
    ("qwen2", "Q4_K", True, MIXED),
    ("qwen2", "Q4_K", False, MIXED),
    ("llama", "Q6_K", True, None),
    ("qwen3", "Q5_K", False, None),
    ("granite", "Q8_0", True, None),
    ("smollm3", "Q4_0", True, None),
    ("mistral", "Q5_1", True, None),
    ("olmo2", "Q4_1", False, None),
    ("phi3", "Q5_0", False, None),
    ("gemma3", "Q6_K", True, None),
    ("lfm2", "Q4_0", True, None),
]


@pytest.mark.parametrize(("architecture", "kind", "tied", "others"), CASES)
def test_states_and_gradients_are_those_of_the_values_bit_for_bit(
    tmp_path, silent, packs, architecture, kind, tied, others
):
    lora = {"rank": 4, "alpha": 8, "targets": list(LINEAR_LAYERS)}
    blocks, values = pair(tmp_path, silent, architecture, kind, tied, others=others, lora=lora)
    output = "out_proj" if architecture == "lfm2" else "o_proj"
    assert kept(blocks)[f"layers.1.self_attn.{output}"] == kind and not kept(values)
    assert others is None or "layers.0.mlp.up_proj" not in kept(blocks)
    assert torch.equal(blocks.output_weight(), values.output_weight())
    wanted, slopes = computed(values, packs)
    for checkpointing in (False, True):
        blocks.checkpointing(checkpointing)
        states, gradients = computed(blocks, packs)
        assert torch.equal(states, wanted)
        assert slopes.keys() == gradients.keys() and slopes
        assert all(torch.equal(gradients[name], slopes[name]) for name in slopes)
    with blocks.base_policy(), values.base_policy(), torch.no_grad():
        assert torch.equal(blocks.hidden(packs[0]), values.hidden(packs[0]))


@pytest.mark.parametrize("targets", [LINEAR_LAYERS, ["q_proj", "v_proj", "down_proj"]], ids=["all", "some"])
@pytest.mark.parametrize("precision", ["f32", "bf16"])
# A compiler takes a minute for the values of these types.
@pytest.mark.parametrize("compiler", ["eager", pytest.param("inductor", marks=pytest.mark.full)])
def test_fused_layers_give_the_same(tmp_path, silent, monkeypatch, packs, targets, precision, compiler):
    monkeypatch.setitem(card.COMPILED, "backend", compiler)
    torch.compiler.reset()
    lora = {"rank": 5, "alpha": 10, "targets": list(targets)}
    blocks, values = pair(tmp_path, silent, others=MIXED, lora=lora, precision=precision)
    for backend in (blocks, values):
        backend.rows._take(backend, FUSED)
    # The products are the same; a matrix of values has another stride.
    near = 1e-5 if precision == "f32" else 0.02
    for checkpointing in (False, True):
        blocks.checkpointing(checkpointing)
        (states, gradients), (wanted, slopes) = computed(blocks, packs), computed(values, packs)
        assert float((states - wanted).norm() / wanted.norm()) < near
        assert furthest(gradients, slopes) < near
    with blocks.base_policy(), values.base_policy(), torch.no_grad():
        base = blocks.hidden(packs[0])
        assert float((base - values.hidden(packs[0])).norm() / base.norm()) < near
    assert blocks.rows.fused.dtype == {"f32": torch.float32, "bf16": torch.bfloat16}[precision]


@pytest.mark.full
@pytest.mark.usefixtures("uncompiled")
def test_fused_layers_of_all_types_are_traced_once(tmp_path, silent, monkeypatch):
    others = {"layers.1.self_attn.v_proj": "Q8_0", "layers.2.mlp.down_proj": "Q5_1"}
    blocks, values = pair(tmp_path, silent, kind="Q4_0", shape={"num_hidden_layers": 3}, others=others)
    # The trial's rows are of lengths that occur on a card.
    packs = packing.plan(tree_batch(tmp_path, groups=8), 4096)
    wanted, slopes = computed(values, packs)
    graphs = []

    def counting(graph, inputs):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setitem(card.COMPILED, "backend", counting)
    # With gradients and without. PEFT's layers have a parameter's shape as a constant: each mixture is one more.
    for way, traces in ((ON_A_CARD[0], 2), (ON_A_CARD[1], 6)):
        graphs.clear()
        blocks.rows = Rows((way,))
        states, gradients = computed(blocks, packs)
        assert (blocks.rows.way, blocks.notes()) == (way, [])
        assert torch.allclose(states, wanted, atol=1e-4)
        assert furthest(gradients, slopes) < 1e-4
        layers = [graph for graph in graphs if any("flex_attention" in str(node.target) for node in graph.graph.nodes)]
        assert len(layers) == traces
        blocks.rows._take(blocks, BLOCKS)


def test_a_session_trains_and_resumes_on_blocks_as_on_values(tmp_path, silent):
    pair(tmp_path, silent, others=MIXED)
    batch = write_tree_batch(tmp_path / "batch.safetensors")
    adapters, sizes = [], []
    for name in ("blocks", "values"):
        for step in (1, 2):
            resume = {"resume": str(tmp_path / f"{name}-1")} if step == 2 else {}
            session = Session(open_settings(tmp_path / f"{name}.gguf", **resume), silent)
            metrics = session.step(step_settings(batch, tmp_path / f"{name}-{step}"), silent)
            assert metrics["applied"]
        assert session.info["blocks"] == (name == "blocks")
        sizes.append(session.info["parameters"])
        adapters.append(load_file(tmp_path / f"{name}-2" / "adapter" / "adapter_model.safetensors"))
    assert sizes[0] == sizes[1]
    assert all(torch.equal(adapters[0][name], adapters[1][name]) for name in adapters[1])


def test_blocks_take_the_memory_of_the_file(tmp_path, silent):
    blocks, values = pair(tmp_path, silent, kind="Q4_0")
    held = [
        sum(p.nbytes for p in backend.model.parameters() if not p.requires_grad and p.dim() > 1)
        for backend in (blocks, values)
    ]
    assert held[0] * 32 == held[1] * 4.5


def test_all_weights_are_trained_from_their_values(tmp_path, silent):
    backend = opened(write_gguf(make_model("qwen2"), tmp_path / "model.gguf", "Q4_0"), silent, lora=None)
    assert not kept(backend)
    assert all(parameter.requires_grad for parameter in backend.model.parameters())


@pytest.fixture
def library(monkeypatch):
    """The engine's, as hone names it to the learner."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine())
    [file] = ROOT.glob(f"node_modules/@node-llama-cpp/linux-{machine}/bins/*/libggml-base.so")
    monkeypatch.setenv(ggml.LIBRARY, str(file))
    ggml._function.cache_clear()
    yield
    monkeypatch.undo()
    ggml._function.cache_clear()


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.name)
def test_llama_cpps_own_code_writes_the_same_values(library, kind, monkeypatch):
    width, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = torch.from_numpy(numpy.random.default_rng(1).integers(0, 256, (13, 3 * size), dtype=numpy.uint8))
    wanted = VALUES[kind](blocks.reshape(-1, size)).view(13, -1).view(torch.int32)
    known = wanted.view(torch.float32).isfinite()
    for threads in (1, 4):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        out = torch.zeros(13, 3 * width)
        # An ARM compiler contracts products and sums: then PyTorch's operations compute them.
        assert ggml.write_to(out, blocks, kind) or platform.machine() != "x86_64"
        quantised.write_values(out, blocks, kind)
        assert torch.equal(out.view(torch.int32)[known], wanted[known])


def test_other_code_than_llama_cpps_computes_what_it_would_get_wrong(library, monkeypatch):
    kind = gguf.GGMLQuantizationType.Q4_1
    blocks = torch.from_numpy(gguf.quantize(numpy.ones((4, 64), "f4"), kind))
    assert not ggml.write_to(torch.empty(4, 64, dtype=torch.bfloat16), blocks, kind)
    assert not ggml.write_to(torch.empty(4, 80)[:, :64], blocks, kind)
    ggml._function.cache_clear()
    monkeypatch.setitem(VALUES, kind, lambda blocks: torch.zeros(len(blocks), 32))
    assert not ggml.write_to(torch.empty(4, 64), blocks, kind)
    ggml._function.cache_clear()
    monkeypatch.setenv(ggml.LIBRARY, "/no/such/library.so")
    assert not ggml.write_to(torch.empty(4, 64), blocks, kind)
