"""Merged weights against PEFT's own merge, and their files against what transformers makes of them."""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import gguf
import learner.export
import pytest
import torch
from learner.architectures import ARCHITECTURES
from learner.errors import Refused
from learner.export import ExportRequest, export, write_safetensors
from learner.gguf_model import read_gguf
from learner.gguf_tensor import dequantised
from learner.gguf_write import write_gguf
from learner.hf_tokenizer import write_tokenizer
from learner.merged import Merged
from learner.request import read
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

OTHERS = ["qwen3", "mistral", "smollm3", "granite", "olmo2", "gemma3", "phi3"]
FAMILIES = ["qwen2", "llama", "lfm2", *(pytest.param(one, marks=pytest.mark.full) for one in OTHERS)]
TOKENIZER = ["tokenizer.json", "tokenizer_config.json"]
IDS = torch.tensor([[5, 17, 42, 8, 90, 33, 61, 12]])


@functools.cache
def theirs(models: Path, family: str, merge: bool) -> torch.nn.Module:
    """PEFT's model in f32, from the folder that the test's GGUF file was made from (whose weights f16 holds)."""
    base = AutoModelForCausalLM.from_pretrained(models / f"{family}-tiny", dtype=torch.float32)
    adapted = PeftModel.from_pretrained(base, models / f"{family}-tiny-adapter-1")
    return adapted.merge_and_unload() if merge else adapted


def merged(models: Path, family: str) -> Merged:
    return Merged(str(models / f"{family}-tiny-f16.gguf"), models / f"{family}-tiny-adapter-1")


def request(models: Path, family: str, into: Path, **more) -> ExportRequest:
    model, adapter = models / f"{family}-tiny-f16.gguf", models / f"{family}-tiny-adapter-1"
    asked = {"model": str(model), "adapter": str(adapter), "source": None, "files": [], "into": str(into)}
    return read(ExportRequest, asked | more)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_gguf_file_in_f32_has_the_weights_that_peft_merges(models: Path, tmp_path: Path, family: str):
    file = tmp_path / "model.gguf"
    export(request(models, family, file, form="gguf", type="f32"))
    ours, expected = read_gguf(str(file)), theirs(models, family, merge=True)
    assert ours.weights == "f32"
    plain = read_gguf(str(models / f"{family}-tiny-f16.gguf"))
    changed = 0
    for name in ours.tensors:
        values, wanted = ours.tensor(name), expected.get_parameter(name).detach()
        # A sum of `rank` products in another order.
        torch.testing.assert_close(values, wanted, rtol=1e-5, atol=1e-6)
        changed += not torch.equal(values, plain.tensor(name))
    linears = tuple(f".{name}.weight" for name in ARCHITECTURES[ours.architecture].linears)
    assert changed == sum(name.endswith(linears) for name in ours.tensors)


@pytest.mark.parametrize(("family", "kind"), [("qwen2", "f16"), ("llama", "bf16"), ("lfm2", "f16")])
def test_16_bits_are_rounded_once(models: Path, tmp_path: Path, family: str, kind: str):
    file = tmp_path / "model.gguf"
    export(request(models, family, file, form="gguf", type=kind))
    ours, whole = read_gguf(str(file)), merged(models, family)
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[kind]
    for name, stored in ours.tensors.items():
        values = whole.tensor(name)
        # ggml convolves with f32 alone.
        full = values.dim() == 1 or name.endswith("conv.conv.weight")
        assert stored.tensor_type.name.lower() == ("f32" if full else kind)
        assert torch.equal(ours.tensor(name), values if full else values.to(dtype).float()), name


@pytest.mark.parametrize("family", FAMILIES)
def test_a_folder_of_safetensors_is_loaded_by_transformers(models: Path, tmp_path: Path, family: str):
    # Llama 3's factors of RoPE are in its own config.json alone.
    source = str(models / "llama-tiny") if family == "llama" else None
    export(request(models, family, tmp_path / "out", form="safetensors", type="f16", source=source, files=TOKENIZER))
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.float32)
    with torch.inference_mode():
        ours, expected = (
            torch.log_softmax(model(IDS).logits, -1) for model in (loaded, theirs(models, family, merge=False))
        )
        base = AutoModelForCausalLM.from_pretrained(models / f"{family}-tiny", dtype=torch.float32)
        plain = torch.log_softmax(base(IDS).logits, -1)
    furthest, effect = (ours - expected).abs().max().item(), (plain - expected).abs().max().item()
    print(f"{family}: f16 safetensors {furthest:.5f} nats from PEFT, the adapter moves {effect:.3f}")
    # Rounding moves each weight by 2^-12 of itself; the adapter by orders of magnitude more.
    assert furthest < effect / 20


def test_the_tokenizer_of_a_gguf_file_cuts_text_as_the_one_that_it_was_made_from(models: Path, tmp_path: Path):
    for family in ("qwen2", "llama"):
        (tmp_path / family).mkdir()
        write_tokenizer(str(models / f"{family}-tiny-f16.gguf"), tmp_path / family, 512)
        ours = AutoTokenizer.from_pretrained(tmp_path / family)
        wanted = AutoTokenizer.from_pretrained(models / f"{family}-tiny")
        for text in ("Hello, world! 12345", "<|im_start|>user\nGrüße 今日は 🙂<|im_end|>\n", "a\t b\r\n\n  c'LL"):
            assert ours(text).input_ids == wanted(text).input_ids, (family, text)
            assert ours.decode(ours(text, add_special_tokens=False).input_ids) == text


def test_a_models_own_folder_gives_its_configuration_and_tokenizer(models: Path, tmp_path: Path):
    source = models / "llama-tiny"
    export(request(models, "llama", tmp_path, form="safetensors", type="bf16", source=str(source), files=TOKENIZER))
    config = json.loads((tmp_path / "config.json").read_text())
    wanted = json.loads((source / "config.json").read_text())
    assert config.pop("torch_dtype") == "bfloat16"
    assert config == {key: value for key, value in wanted.items() if key not in ("dtype", "torch_dtype")}
    assert (tmp_path / "tokenizer.json").read_bytes() == (source / "tokenizer.json").read_bytes()
    assert all(tensor.dtype == torch.bfloat16 for tensor in load_file(tmp_path / "model.safetensors").values())


def test_factors_of_rope_that_a_configuration_cannot_say_are_refused(models: Path, tmp_path: Path):
    with pytest.raises(Refused, match=r"stretches RoPE by factors.*give --base-folder"):
        export(request(models, "llama", tmp_path, form="safetensors", type="f16"))


def test_large_weights_go_into_parts_with_an_index(models: Path, tmp_path: Path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
    write_safetensors(merged(models, "qwen2"), "f16", whole)
    write_safetensors(merged(models, "qwen2"), "f16", parts, most=100_000)
    index = json.loads((parts / "model.safetensors.index.json").read_text())
    files = sorted(set(index["weight_map"].values()))
    assert len(files) > 2
    assert files[0] == f"model-00001-of-{len(files):05}.safetensors"
    together = {name: tensor for file in files for name, tensor in load_file(parts / file).items()}
    expected = load_file(whole / "model.safetensors")
    assert together.keys() == expected.keys() == index["weight_map"].keys()
    assert all(torch.equal(together[name], expected[name]) for name in expected)
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in expected.values())


def test_numbers_that_f16_does_not_hold_are_refused(models: Path, tmp_path: Path):
    reader = gguf.GGUFReader(models / "qwen2-tiny-f16.gguf")
    with pytest.raises(Refused, match=r"above 65504, which f16 does not hold: take bf16"):
        write_gguf(tmp_path / "model.gguf", reader, lambda tensor: dequantised(tensor) * 1e6, "f16")


def test_an_adapter_of_another_model_is_refused(models: Path, tmp_path: Path):
    adapter = tmp_path / "adapter"
    shutil.copytree(models / "qwen2-tiny-adapter-1", adapter)
    state = load_file(adapter / "adapter_model.safetensors")
    moved = {name.replace("layers.0.", "layers.99."): value for name, value in state.items()}
    save_file(moved, adapter / "adapter_model.safetensors")
    with pytest.raises(Refused, match=r"layers\.99\..*which .* has no place for"):
        Merged(str(models / "qwen2-tiny-f16.gguf"), adapter)


def test_metadata_is_the_base_files_but_for_the_type(models: Path, tmp_path: Path):
    file = tmp_path / "model.gguf"
    export(request(models, "llama", file, form="gguf", type="bf16"))

    def metadata(path: Path) -> dict:
        fields = gguf.GGUFReader(path).fields.values()
        return {field.name: field.contents() for field in fields if not field.name.startswith("GGUF.")}

    ours, wanted = metadata(file), metadata(models / "llama-tiny-f16.gguf")
    assert ours.pop("general.file_type") == gguf.LlamaFileType.MOSTLY_BF16
    assert wanted.pop("general.file_type") == gguf.LlamaFileType.MOSTLY_F16
    assert ours == wanted


# Its files take 50 kB and no more, as on a full disk. A process of its own: the tests' output is a file too.
SMALL_FILES = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
from learner.export import main
main()
"""


@pytest.mark.full
@pytest.mark.parametrize("form", ["gguf", "safetensors"])
def test_a_disk_that_takes_no_more_is_one_line(models: Path, tmp_path: Path, form: str):
    asked = request(models, "qwen2", tmp_path / "model", form=form, type="f16")
    native = Path(learner.export.__file__).parent.parent
    program = [sys.executable, "-c", SMALL_FILES, json.dumps(asdict(asked))]
    ended = subprocess.run(program, capture_output=True, text=True, cwd=native)
    assert ended.returncode == 1
    assert re.fullmatch(r".*(requested and \d+ written|File too large).*\n", ended.stderr)
