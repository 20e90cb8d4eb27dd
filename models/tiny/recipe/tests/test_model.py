from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from torch.nn import functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer

from ..export import half_precision, save_gguf, save_hugging_face
from ..initialise import initialise_standard, initialise_structured
from ..kernels import CausalAttention
from ..model import Shape, TinyModel


@pytest.fixture
def model(tokenizer: Tokenizer) -> TinyModel:
    torch.manual_seed(0)
    model = TinyModel(Shape(tokenizer.get_vocab_size()))
    initialise_structured(model)
    return model


def test_attention_and_its_gradients_equal_pytorchs_beyond_one_block() -> None:
    torch.manual_seed(1)
    inputs = [torch.randn(2, 3, 530, 16, requires_grad=True) for _ in range(3)]
    ours, theirs = CausalAttention.apply(*inputs), F.scaled_dot_product_attention(*inputs, is_causal=True)
    torch.testing.assert_close(ours, theirs)
    gradient = torch.randn_like(ours)
    torch.testing.assert_close(
        torch.autograd.grad(ours, inputs, gradient), torch.autograd.grad(theirs, inputs, gradient)
    )


def test_logits_and_gradients_equal_transformers(model: TinyModel, tokenizer: Tokenizer, tmp_path: Path) -> None:
    save_hugging_face(model, tokenizer, tmp_path)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32, attn_implementation="eager")
    model.load_state_dict({name: value.float() for name, value in half_precision(model).items()})
    # Without the padding token: transformers gives it no gradient.
    ids = torch.randint(0, tokenizer.token_to_id("<|endoftext|>"), (2, 300))
    torch.testing.assert_close(model(ids), theirs(ids).logits, atol=1e-4, rtol=1e-4)

    for each, logits in ((model, model(ids)), (theirs, theirs(ids).logits)):
        each.zero_grad()
        F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).backward()
    wanted = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    largest = max(gradient.abs().max() for gradient in wanted.values())
    for name, parameter in model.named_parameters():
        # A bias of the keys changes nothing, so its gradient is rounding: it is measured against the largest.
        assert (parameter.grad - wanted[name]).abs().max() < 1e-3 * wanted[name].abs().max() + 1e-6 * largest, name


def test_hugging_face_tokenizes_as_trained(model: TinyModel, tokenizer: Tokenizer, tmp_path: Path) -> None:
    save_hugging_face(model, tokenizer, tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    text = loaded.apply_chat_template(
        [{"role": "user", "content": "Who's Wanda? 12 <b>…"}], tokenize=False, add_generation_prompt=True
    )
    assert text == "<|im_start|>user\nWho's Wanda? 12 <b>…<|im_end|>\n<|im_start|>assistant\n"
    assert loaded(text).input_ids == tokenizer.encode(text).ids


def test_gguf_holds_every_weight(model: TinyModel, tokenizer: Tokenizer, tmp_path: Path) -> None:
    import gguf

    save_gguf(model, tokenizer, tmp_path / "model.gguf")
    reader = gguf.GGUFReader(tmp_path / "model.gguf")
    stored = {tensor.name: torch.tensor(tensor.data) for tensor in reader.tensors}
    weights = half_precision(model)
    assert len(stored) == len(weights)
    assert torch.equal(stored["token_embd.weight"], weights["model.embed_tokens.weight"])
    assert torch.equal(stored["blk.3.attn_k.bias"], weights["model.layers.3.self_attn.k_proj.bias"].float())
    assert torch.equal(stored["blk.2.ffn_down.weight"], weights["model.layers.2.mlp.down_proj.weight"])


def test_structured_start_copies_what_followed_before_and_the_standard_one_does_not() -> None:
    torch.manual_seed(2)
    once = torch.stack([torch.randperm(400)[:60] for _ in range(8)])
    ids = torch.cat([once, once], 1)
    ranks = {}
    for start in (initialise_structured, initialise_standard):
        model = TinyModel(Shape(400))
        start(model)
        with torch.no_grad():
            logits = model(ids)[:, 60:-1]
        targets = ids[:, 61:]
        ranks[start] = (logits > logits.gather(-1, targets[..., None])).float().sum(-1).mean().item()
    # 200 of 400 is chance.
    assert ranks[initialise_structured] < 60
    assert ranks[initialise_standard] > 150
