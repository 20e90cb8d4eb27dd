"""Weights are read into the type and place in which they are used, and attention makes no copies that last."""

import pytest
import torch
from batches import open_settings
from learner import attention
from learner.attention import MASK_ALIGNMENT, Layout
from learner.backend import LINEAR_LAYERS, PeftBackend, _linears_to
from learner.blocks import Block
from learner.model import load_base
from learner.packing import Pack, Segment

from models import make_model, write_gguf


@pytest.mark.parametrize("architecture", ["qwen2", "llama"])
def test_each_tensor_is_placed_as_soon_as_it_is_read(tmp_path, silent, architecture):
    gguf = write_gguf(make_model(architecture), tmp_path / "model.gguf")
    placed = []

    def place(name, values):
        # Only the tensor in hand is in f32.
        assert values.dtype == torch.float32
        placed.append(name)
        return values.half()

    model, _ = load_base(str(gguf), None, silent, place)
    assert sorted(placed) == sorted(name for name, _ in model.named_parameters())
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float16}


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3", "llama"])
def test_bf16_weights_are_those_of_a_model_converted_at_once(tmp_path, silent, monkeypatch, architecture):
    gguf = write_gguf(make_model(architecture), tmp_path / "model.gguf")
    expected, _ = load_base(str(gguf), None, silent)
    _linears_to(expected, torch.bfloat16)
    seen = []

    def convert(model, dtype):
        seen.extend(
            parameter.dtype for name, parameter in model.named_parameters() if name.split(".")[-2] in LINEAR_LAYERS
        )
        _linears_to(model, dtype)

    monkeypatch.setattr("learner.backend._linears_to", convert)
    backend = PeftBackend(open_settings(gguf, precision="bf16"), silent)
    # Nothing was left to convert.
    assert set(seen) == {torch.bfloat16}
    ours = {
        name.replace("base_model.model.", "").replace(".base_layer", ""): p
        for name, p in backend.model.named_parameters()
    }
    for name, parameter in expected.named_parameters():
        assert ours[name].dtype == parameter.dtype
        assert torch.equal(ours[name], parameter)


def test_a_mask_is_in_the_type_and_the_layout_that_attention_takes_as_it_is():
    block = Block(7, 12, ((0, 7),), True)
    pack = Pack(*[torch.empty(12)] * 2, torch.full((12,), 12), (Segment(12, ()),), *[torch.empty(0)] * 4)
    mask = Layout(pack).mask(block, torch.zeros(2, 2, 5, 4, dtype=torch.bfloat16))
    assert mask.dtype == torch.bfloat16
    assert mask.shape == (5, 12)
    assert mask.stride(0) % MASK_ALIGNMENT == 0
    assert torch.equal(mask.float(), torch.full((5, 12), float("-inf")).triu(8))
    queries = torch.zeros(2, 2, 5, 4)
    assert attention.computed_in(queries) == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert attention.computed_in(queries) == torch.bfloat16
