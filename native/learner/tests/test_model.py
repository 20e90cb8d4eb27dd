"""Weights from GGUF files equal the originals; what cannot be trained is refused with a reason."""

import tracemalloc

import gguf
import numpy
import pytest
import torch
from learner.errors import Refused
from learner.gguf_model import read_gguf
from learner.model import load_base
from transformers import AutoModelForCausalLM
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from models import make_model, write_gguf


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    "architecture", ["qwen2", "qwen3", "llama", "mistral", "smollm3", "granite", "olmo2", "gemma3", "phi3", "lfm2"]
)
@pytest.mark.parametrize(
    ("kind", "tolerance"),
    [
        ("F16", 0),
        ("F32", 0),
        ("BF16", 0.01),
        ("Q8_0", 0.02),
        ("Q5_1", 0.04),
        ("Q5_0", 0.07),
        ("Q4_1", 0.07),
        ("Q4_0", 0.13),
    ],
)
def test_a_gguf_file_gives_the_model_it_was_made_from(tmp_path, silent, architecture, tied, kind, tolerance):
    model = make_model(architecture, tied)
    loaded, file = load_base(str(write_gguf(model, tmp_path / "model.gguf", kind)), None, silent)
    assert file.weights == kind.lower()
    ours = dict(loaded.named_parameters())
    for name, parameter in model.named_parameters():
        difference = (ours[name] - parameter).abs().max() / parameter.abs().max()
        assert difference <= tolerance, name
    for name, buffer in model.named_buffers():
        assert torch.equal(loaded.get_buffer(name), buffer), name
    assert (loaded.lm_head.weight is loaded.model.embed_tokens.weight) == tied


def test_rope_factors_of_llama_3_are_applied(tmp_path, silent):
    model = make_model("llama")
    rope = {"rope_theta": 10000.0, "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0}
    rope |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    plain = LlamaRotaryEmbedding(model.config).inv_freq
    model.config.rope_parameters = rope
    scaled = LlamaRotaryEmbedding(model.config).inv_freq
    loaded, _ = load_base(str(write_gguf(model, tmp_path / "model.gguf", rope_factors=plain / scaled)), None, silent)
    assert torch.allclose(loaded.model.rotary_emb.inv_freq, scaled)
    assert not torch.allclose(scaled, plain)


WIDE = dict(hidden_size=256, intermediate_size=256, head_dim=64)
"""Some types have blocks of 256 weights."""


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "TQ1_0"])
def test_a_folder_of_the_same_model_is_taken_and_another_is_refused_by_its_weights(tmp_path, silent, kind):
    model = make_model("qwen2", **WIDE)
    file = write_gguf(model, tmp_path / "model.gguf", kind)
    model.save_pretrained(tmp_path / "same")
    loaded, _ = load_base(str(file), str(tmp_path / "same"), silent)
    weight = model.model.layers[0].self_attn.q_proj.weight
    assert torch.equal(loaded.model.layers[0].self_attn.q_proj.weight, weight)
    other = make_model("qwen2", seed=5, **WIDE)
    other.model.norm.load_state_dict(model.model.norm.state_dict())
    other.save_pretrained(tmp_path / "other")
    with pytest.raises(Refused, match=r"is not the model of .*q_proj"):
        load_base(str(file), str(tmp_path / "other"), silent)


def test_a_folder_takes_the_place_of_weights_that_cannot_be_read(tmp_path, silent):
    model = make_model("qwen2")
    model.save_pretrained(tmp_path / "same")
    loaded, _ = load_base(str(write_gguf(model, tmp_path / "model.gguf", "Q8_1")), str(tmp_path / "same"), silent)
    assert torch.equal(loaded.model.embed_tokens.weight, model.model.embed_tokens.weight)


def test_a_folder_of_another_shape_or_without_a_model_is_refused(tmp_path, silent):
    file = write_gguf(make_model("qwen2"), tmp_path / "model.gguf")
    make_model("qwen2", num_hidden_layers=3).save_pretrained(tmp_path / "deeper")
    with pytest.raises(Refused, match="num_hidden_layers is 3 there and 2"):
        load_base(str(file), str(tmp_path / "deeper"), silent)
    with pytest.raises(Refused, match=r"no config\.json"):
        load_base(str(file), str(tmp_path), silent)


def test_a_folder_of_mistrals_is_the_llama_of_its_file_unless_it_has_a_window(tmp_path, silent):
    model = make_model("mistral", head_dim=16)
    file, folder = str(write_gguf(model, tmp_path / "model.gguf")), tmp_path / "folder"
    ids = torch.randint(96, (1, 40), generator=torch.Generator().manual_seed(0))
    for window in (None, 512):
        model.config.sliding_window = window
        model.save_pretrained(folder)
        loaded, _ = load_base(file, str(folder), silent)
        loaded.config._attn_implementation = "eager"
        assert torch.allclose(loaded(ids).logits, model(ids).logits, atol=1e-5)
    model.config.sliding_window = 20
    model.save_pretrained(folder)
    with pytest.raises(Refused, match="attends through a sliding window of 20 tokens"):
        load_base(file, str(folder), silent)


def check_folder_and_file(model, folder, silent):
    """From the file alone and from a folder of the model: the logits are the model's. Returns the file."""
    file, saved = str(write_gguf(model, folder / "model.gguf")), folder / "folder"
    model.save_pretrained(saved)
    ids = torch.randint(96, (1, 40), generator=torch.Generator().manual_seed(0))
    for source in (None, str(saved)):
        loaded, _ = load_base(file, source, silent)
        loaded.config._attn_implementation = "eager"
        assert torch.allclose(loaded(ids).logits, model(ids).logits, atol=1e-5)
    return file


@pytest.mark.parametrize("architecture", ["smollm3", "granite", "olmo2", "gemma3", "phi3", "lfm2"])
def test_a_folder_computes_what_its_file_does(tmp_path, silent, architecture):
    check_folder_and_file(make_model(architecture), tmp_path, silent)


def test_the_width_of_lfm2s_layers_follows_from_the_one_that_its_folder_names(tmp_path, silent):
    # 2/3 of 90 times 1.3, rounded up to a multiple of 16.
    named = {"intermediate_size": 90, "block_auto_adjust_ff_dim": True, "block_ffn_dim_multiplier": 1.3}
    model = make_model("lfm2", **named, block_multiple_of=16)
    assert model.model.layers[0].feed_forward.w1.out_features == 80
    file = check_folder_and_file(model, tmp_path, silent)
    assert read_gguf(file).config.intermediate_size == 80


@pytest.mark.parametrize(
    ("architecture", "changed", "said"),
    [
        ("smollm3", {"no_rope_layers": [1, 0, 1, 0]}, "has RoPE in other layers"),
        ("granite", {"residual_multiplier": 1.0}, r"residual_multiplier is 1\.0 there and 0\.375 in the file"),
        ("gemma3", {"sliding_window": 12}, "sliding_window is 12 there and 11 in the file"),
        ("gemma3", {"query_pre_attn_scalar": 16}, "query_pre_attn_scalar is 16 there and 8 in the file"),
        ("lfm2", {"conv_bias": True}, "conv_bias is True there and False in the file"),
    ],
)
def test_a_folder_is_refused_where_it_says_otherwise_than_its_file(tmp_path, silent, architecture, changed, said):
    model = make_model(architecture)
    file, folder = str(write_gguf(model, tmp_path / "model.gguf")), tmp_path / "folder"
    for key, value in changed.items():
        setattr(model.config, key, value)
    model.save_pretrained(folder)
    with pytest.raises(Refused, match=said):
        load_base(file, str(folder), silent)


def test_dropout_that_a_folder_asks_for_is_not_applied(tmp_path, silent):
    model = make_model("qwen2")
    file = write_gguf(model, tmp_path / "model.gguf")
    model.config.attention_dropout = 0.5
    model.save_pretrained(tmp_path / "folder")
    loaded, _ = load_base(str(file), str(tmp_path / "folder"), silent)
    loaded.train()
    assert {layer.self_attn.attention_dropout for layer in loaded.model.layers} == {0.0}


def test_dropout_of_what_layers_add_is_not_applied(tmp_path, silent):
    model = make_model("phi3")
    file = write_gguf(model, tmp_path / "model.gguf")
    model.config.resid_pdrop = 0.5
    model.save_pretrained(tmp_path / "folder")
    loaded, _ = load_base(str(file), str(tmp_path / "folder"), silent)
    assert {layer.resid_mlp_dropout.p for layer in loaded.model.layers} == {0.0}


def test_other_architectures_types_and_files_are_refused_by_name(tmp_path, silent):
    writer = gguf.GGUFWriter(tmp_path / "phi.gguf", "phi2")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(Refused, match="architecture phi2; the learner trains qwen2, qwen3, llama"):
        load_base(str(tmp_path / "phi.gguf"), None, silent)

    file = write_gguf(make_model("qwen2"), tmp_path / "q8_1.gguf", "Q8_1")
    with pytest.raises(Refused, match="q8_1 weights, which the learner cannot read; give --hf-weights"):
        load_base(str(file), None, silent)

    (tmp_path / "text.gguf").write_text("hello, this is not a model")
    with pytest.raises(Refused, match="cannot be read as GGUF"):
        load_base(str(tmp_path / "text.gguf"), None, silent)
    with pytest.raises(Refused, match="cannot be read as GGUF"):
        load_base(str(tmp_path / "missing.gguf"), None, silent)


@pytest.mark.parametrize(
    ("add", "reason"),
    [
        (lambda writer: writer.add_sliding_window_pattern(4), "windows of attention in other layers"),
        (lambda writer: writer.add_sliding_window_pattern([True] * 6), "windows of attention in other layers"),
        (lambda writer: writer.add_final_logit_softcapping(30.0), "bounds its logits"),
    ],
)
def test_gemma_is_refused_where_it_computes_something_else(tmp_path, silent, monkeypatch, add, reason):
    also_writing(monkeypatch, add)
    with pytest.raises(Refused, match=reason):
        load_base(str(write_gguf(make_model("gemma3"), tmp_path / "model.gguf")), None, silent)


def test_the_largest_gemma_scales_its_queries_by_the_width_of_the_heads_that_it_would_have(tmp_path):
    model = make_model("gemma3", num_hidden_layers=62, hidden_size=48)
    assert read_gguf(str(write_gguf(model, tmp_path / "model.gguf"))).config.query_pre_attn_scalar == 12


def also_writing(monkeypatch, add):
    """Files that are written from now on have in them what `add` adds."""
    begin = gguf.GGUFWriter.write_header_to_file

    def with_more(writer, *arguments):
        add(writer)
        return begin(writer, *arguments)

    monkeypatch.setattr(gguf.GGUFWriter, "write_header_to_file", with_more)


@pytest.mark.parametrize("folder", [False, True])
@pytest.mark.parametrize(
    ("add", "reason"),
    [
        (lambda writer: writer.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE), "scales RoPE by longrope"),
        (
            lambda writer: (
                writer.add_rope_scaling_type(gguf.RopeScalingType.YARN),
                writer.add_rope_scaling_yarn_log_mul(0.1),
            ),
            r"a variant of YaRN \(yarn_log_multiplier\)",
        ),
        (lambda writer: writer.add_expert_count(8), "is a mixture of experts"),
        (
            lambda writer: writer.add_tensor("blk.0.ffn_gate_inp.weight", numpy.zeros((8, 32), numpy.float32)),
            r"a tensor blk\.0\.ffn_gate_inp\.weight",
        ),
    ],
)
def test_another_computation_is_refused_and_a_folder_of_weights_is_no_remedy(
    tmp_path, silent, monkeypatch, add, reason, folder
):
    model = make_model("llama")
    model.save_pretrained(tmp_path / "same")
    also_writing(monkeypatch, add)
    file = write_gguf(model, tmp_path / "model.gguf")
    with pytest.raises(Refused, match=reason) as refused:
        load_base(str(file), str(tmp_path / "same") if folder else None, silent)
    assert "--hf-weights" not in str(refused.value)


@pytest.mark.parametrize("kind", ["F32", "F16", "Q4_0"])
def test_a_large_table_is_held_once_while_it_is_read(tmp_path, kind):
    file = read_gguf(str(write_gguf(make_model("qwen2", vocab_size=16384), tmp_path / "model.gguf", kind)))
    tracemalloc.start()
    table = file.tensor("model.embed_tokens.weight")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.5 * table.nbytes


@pytest.mark.parametrize(
    "name",
    [
        "qwen2-tiny",
        "qwen3-tiny",
        "llama-tiny",
        "mistral-tiny",
        "smollm3-tiny",
        "granite-tiny",
        "olmo2-tiny",
        "gemma3-tiny",
        "phi3-tiny",
        "lfm2-tiny",
    ],
)
@pytest.mark.parametrize(("kind", "tolerance"), [("f16", 0), ("q8_0", 0.02)])
def test_files_of_llama_cpps_converter_give_the_original_weights(models, silent, name, kind, tolerance):
    original = AutoModelForCausalLM.from_pretrained(models / name, dtype=torch.float32, attn_implementation="eager")
    loaded, _ = load_base(str(models / f"{name}-{kind}.gguf"), None, silent)
    ours = dict(loaded.named_parameters())
    with torch.no_grad():
        for key, parameter in original.named_parameters():
            if parameter.dim() > 1:
                parameter.copy_(parameter.half())
            assert (ours[key] - parameter).abs().max() <= tolerance * parameter.abs().max(), key
        if kind == "f16":
            loaded.config._attn_implementation = "eager"
            ids = torch.randint(original.config.vocab_size, (1, 40), generator=torch.Generator().manual_seed(0))
            assert torch.allclose(loaded(ids).logits, original(ids).logits, atol=1e-4)
