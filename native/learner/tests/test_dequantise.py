"""Copies of quantised model files with other weights, against the gguf package's own numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gguf
import numpy
import pytest
import torch
from learner.dequantise import dequantise
from learner.errors import Refused
from learner.gguf_model import read_gguf

from models import make_model, write_gguf

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}


@pytest.mark.parametrize("source", ["Q4_1", "Q8_0", "BF16"])
@pytest.mark.parametrize("kind", TYPES)
def test_a_copy_has_the_dequantised_weights_rounded_once_and_all_metadata(source: str, kind: str, tmp_path: Path):
    model = make_model("llama", tied=False)
    quantised = write_gguf(model, tmp_path / "model.gguf", source, rope_factors=torch.linspace(1, 8, 4))
    dequantise(str(quantised), tmp_path / "copy.gguf", kind)
    before, after = gguf.GGUFReader(quantised), gguf.GGUFReader(tmp_path / "copy.gguf")

    def about(reader: gguf.GGUFReader) -> dict:
        named = {name: field.contents() for name, field in reader.fields.items()}
        return {name: value for name, value in named.items() if name != "general.file_type" and "GGUF." not in name}

    assert about(after) == about(before)
    assert [tensor.name for tensor in after.tensors] == [tensor.name for tensor in before.tensors]
    for theirs, ours in zip(before.tensors, after.tensors, strict=True):
        numbers = torch.from_numpy(numpy.array(gguf.dequantize(theirs.data, theirs.tensor_type)))
        rounded = numbers.to(TYPES[kind]).float() if len(theirs.shape) > 1 else numbers
        written = torch.from_numpy(numpy.array(gguf.dequantize(ours.data, ours.tensor_type)))
        assert torch.equal(written.reshape(rounded.shape), rounded), theirs.name
    assert read_gguf(str(tmp_path / "copy.gguf")).weights == kind


def test_weights_that_are_not_finite_are_refused(tmp_path: Path):
    model = make_model("qwen2")
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[3, 5] = float("nan")
    damaged = write_gguf(model, tmp_path / "model.gguf", "F32")
    with pytest.raises(Refused, match=r"^blk\.1\.ffn_up\.weight has weights that are not finite: the file is damaged"):
        dequantise(str(damaged), tmp_path / "copy.gguf", "f16")


def test_a_file_that_is_cut_short_is_refused_in_one_line(tmp_path: Path):
    whole = write_gguf(make_model("qwen2"), tmp_path / "model.gguf", "Q8_0")
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(whole.read_bytes()[:-500])
    program = [sys.executable, "-m", "learner.dequantise", str(cut), str(tmp_path / "copy.gguf"), "f16"]
    ended = subprocess.run(program, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert ended.returncode == 1
    assert ended.stderr.startswith("it cannot be read as GGUF: ")
    assert ended.stderr.count("\n") == 1
