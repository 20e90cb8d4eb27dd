"""A small Qwen2.5 in the form in which its makers publish theirs: real vocabulary, real template, bf16 safetensors.

llama.cpp carries the vocabulary of Qwen2, whose byte-pair merges Qwen2.5 kept; the names that Qwen2.5 added are below.
llama.cpp's converter knows the vocabulary by what it makes of a text, and would refuse another one.
"""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import tiny
import torch
import vocabulary
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

NAME = "qwen2.5-small"
VOCABULARY_SIZE, CONTEXT = 151936, 32768
# After the 151643 of the merges.
CONTROL = [
    "endoftext",
    "im_start",
    "im_end",
    "object_ref_start",
    "object_ref_end",
    "box_start",
    "box_end",
    "quad_start",
    "quad_end",
    "vision_start",
    "vision_end",
    "vision_pad",
    "image_pad",
    "video_pad",
]
TOOL_CALL = ["<tool_call>", "</tool_call>"]
CODE = ["fim_prefix", "fim_middle", "fim_suffix", "fim_pad", "repo_name", "file_sep"]


def tokenizer(source: Path) -> PreTrainedTokenizerFast:
    fields = gguf.GGUFReader(source / "models" / "ggml-vocab-qwen2.gguf").fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    kinds = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"].contents()]
    words = {token: number for number, token in enumerate(tokens) if kinds[number] == gguf.TokenType.NORMAL}
    made = Tokenizer(models.BPE(words, merges))
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(vocabulary.PATTERN["qwen2"]), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    for names, special in ((CONTROL, True), (TOOL_CALL, False), (CODE, False)):
        texts = names if names is TOOL_CALL else [f"<|{name}|>" for name in names]
        made.add_tokens([AddedToken(text, special=special, normalized=False) for text in texts])
    assert made.token_to_id("<|im_end|>") == 151645 and made.token_to_id("<tool_call>") == 151657
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>")


def write_tokenizer(source: Path, folder: Path) -> None:
    """tokenizer.json, and beside it what the makers say of it, the chat template included."""
    tokenizer(source).save_pretrained(folder)
    template = source / "models" / "templates" / vocabulary.TEMPLATE["qwen2"]
    about = {
        "add_bos_token": False,
        "add_prefix_space": False,
        "bos_token": None,
        "chat_template": template.read_text(encoding="utf-8"),
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 131072,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(about, indent=2))


def make(source: Path, out: Path) -> None:
    folder = out / NAME
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=VOCABULARY_SIZE,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
            bos_token_id=151643,
            eos_token_id=151645,
        )
    )
    tiny.randomize(model, seed=1)
    model.to(torch.bfloat16).save_pretrained(folder)
    write_tokenizer(source, folder)
    ends = {"bos_token_id": 151643, "eos_token_id": [151645, 151643], "pad_token_id": 151643}
    GenerationConfig(**ends).save_pretrained(folder)
    # As published before transformers 5: the window it names and does not use, RoPE's base beside the rest.
    file = folder / "config.json"
    config = json.loads(file.read_text())
    config |= {"sliding_window": CONTEXT, "use_sliding_window": False, "rope_theta": 1e6, "torch_dtype": "bfloat16"}
    for new in ("layer_types", "rope_parameters", "dtype"):
        config.pop(new, None)
    file.write_text(json.dumps(config, indent=2))
