"""Which backend is chosen: PEFT, unless Unsloth is asked for and computes what is asked of it."""

import pytest
import torch
from batches import open_settings
from learner import choice
from learner.errors import Refused
from learner.session import Session

from models import make_model, write_gguf

pytestmark = pytest.mark.full


@pytest.mark.parametrize(
    "settings, why",
    [
        ({"lora": None}, "trains adapters"),
        ({"lifetime": "offload"}, "--learner-lifetime step in place of offload"),
    ],
)
def test_what_unsloth_does_not_do_is_refused_and_left_to_peft_by_auto(qwen2, settings, why):
    with pytest.raises(Refused, match=f"--learner unsloth: .*{why}.*; or use --learner peft"):
        choice.chosen(open_settings(qwen2, backend="unsloth", **settings))
    assert choice.chosen(open_settings(qwen2, backend="auto", device="cuda", **settings)) == "peft"


@pytest.mark.parametrize("architecture", ["granite", "smollm3", "olmo2", "gemma3", "phi3", "lfm2"])
def test_architectures_that_were_not_tried_are_refused_and_left_to_peft_by_auto(tmp_path, monkeypatch, architecture):
    monkeypatch.setattr(choice.importlib.util, "find_spec", lambda name: object())
    file = write_gguf(make_model(architecture), tmp_path / "model.gguf")
    for device in ("cpu", "cuda"):
        with pytest.raises(Refused, match=f"model of {architecture}, whose computation by Unsloth was not tried"):
            choice.chosen(open_settings(file, backend="unsloth", device=device))
        assert choice.chosen(open_settings(file, backend="auto", device=device)) == "peft"


def test_factors_of_rope_are_refused_on_cuda_and_left_to_peft_by_auto(tmp_path, monkeypatch):
    monkeypatch.setattr(choice.importlib.util, "find_spec", lambda name: object())
    file = write_gguf(make_model("llama"), tmp_path / "model.gguf", rope_factors=torch.linspace(1, 8, 4))
    with pytest.raises(Refused, match=r"scales RoPE by factors.*--hf-weights.*or use --learner peft"):
        choice.chosen(open_settings(file, backend="unsloth", device="cuda"))
    assert choice.chosen(open_settings(file, backend="auto", device="cuda")) == "peft"
    folder = {"gguf": str(file), "hf": str(tmp_path)}
    assert choice.chosen(open_settings(file, backend="unsloth", device="cuda", base=folder)) == "unsloth"


def test_bf16_is_refused_on_a_gpu_without_it_and_left_to_peft_by_auto(qwen2, without_bf16, monkeypatch):
    """Unsloth would load f16 in its place, which is found only when the model is there."""
    monkeypatch.setattr(choice.importlib.util, "find_spec", lambda name: object())

    def chosen(backend, precision):
        return choice.chosen(open_settings(qwen2, device="cuda", backend=backend, precision=precision))

    with pytest.raises(
        Refused, match=r"--learner unsloth: this GPU has no bf16.*--precision f16; or use --learner peft"
    ):
        chosen("unsloth", "bf16")
    for precision in ("auto", "f16", "bf16"):
        assert chosen("auto", precision) == "peft"
    assert chosen("unsloth", "auto") == "unsloth"


def test_auto_is_peft_which_shares_prefixes_and_says_so_where_unsloth_is_passed_over(qwen2, monkeypatch):
    def said(device, there, backend="auto"):
        monkeypatch.setattr(choice.importlib.util, "find_spec", lambda name: object() if there else None)
        settings = open_settings(qwen2, backend=backend, device=device)
        assert choice.chosen(settings) == "peft"
        return choice.notes(settings)

    assert [said("cuda", False), said("cpu", True), said("cuda", True, "peft")] == [[], [], []]
    (note,) = said("cuda", True)
    assert note.startswith("--learner auto takes PEFT, though Unsloth is installed: its rows compute a beginning")


def test_where_it_is_not_installed_the_refusal_says_how_to_add_it(qwen2, silent, monkeypatch):
    monkeypatch.setattr(choice.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Refused, match=r"has no Unsloth; `yarn doctor --install --learner unsloth` adds it"):
        Session(open_settings(qwen2, backend="unsloth"), silent)
