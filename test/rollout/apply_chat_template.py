"""Renders and tokenises conversations with Hugging Face's `apply_chat_template`, for comparison with hone's.

Reads a JSON list of {vocabulary, template, messages, tools, generation, args?, framing?} from standard input and writes a
list of {text, ids}. `vocabulary` is a GGUF file or a Hugging Face folder, `template` a Jinja file or null for the folder's
own. Texts of `framing` stand as U+E100, their number, U+E101 where they are to be text, as if they were no tokens.
"""

import functools
import json
import os
import re
import sys
from unittest import mock

import gguf
import numpy
from tokenizers import AddedToken, Regex, Tokenizer, pre_tokenizers
from transformers import AutoTokenizer

WORDS = {
    "llama-bpe": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "tekken": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
"""How the models' own tokenizer.json split text, by `tokenizer.ggml.pre`: transformers 5.17 has GPT-2's way for all."""


def in_memory(path: str, dtype: type = numpy.uint8, mode: str = "r") -> numpy.ndarray:
    """In the place of numpy.memmap, of which the GGUF reader takes millions of slices, each costly."""
    return numpy.fromfile(path, dtype=dtype)


@functools.cache
def tokenizer(vocabulary: str):
    if os.path.isdir(vocabulary):
        return AutoTokenizer.from_pretrained(vocabulary)
    folder, name = os.path.split(vocabulary)
    with mock.patch("numpy.memmap", in_memory):
        hf = AutoTokenizer.from_pretrained(folder, gguf_file=name)
        reader = gguf.GGUFReader(vocabulary)
    pre = reader.get_field("tokenizer.ggml.pre")
    kinds = reader.get_field("tokenizer.ggml.token_type").contents()
    tokens = reader.get_field("tokenizer.ggml.tokens").contents()
    # Nor does it keep tokens whole that are no control tokens, as <tool_call>.
    own = [token for token, kind in zip(tokens, kinds, strict=True) if kind == gguf.TokenType.USER_DEFINED]
    hf.add_tokens([AddedToken(token, normalized=False, special=False) for token in own])
    # 5.17 also takes the first token of a text for the last.
    for name in ("bos", "eos"):
        field = reader.get_field(f"tokenizer.ggml.{name}_token_id")
        if field:
            setattr(hf, f"{name}_token", tokens[field.contents()])
    words = WORDS.get(pre.contents()) if pre else None
    if words:
        split = pre_tokenizers.Split(Regex(words), "isolated")
        bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        hf.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, bytes_])
        # Both models take a word that is a token of its own as it is.
        hf.backend_tokenizer.model.ignore_merges = True
    return hf


@functools.cache
def without(vocabulary: str, texts: tuple[str, ...]) -> Tokenizer:
    """The tokenizer to which these texts were not added."""
    about = json.loads(tokenizer(vocabulary).backend_tokenizer.to_str())
    about["added_tokens"] = [token for token in about["added_tokens"] if token["content"] not in texts]
    return Tokenizer.from_str(json.dumps(about))


def ids_of(text: str, vocabulary: str, framing: tuple[str, ...]) -> list[int]:
    hf = tokenizer(vocabulary)
    if not framing:
        return hf(text, add_special_tokens=False).input_ids
    ids: list[int] = []
    for piece in re.split(f"({'|'.join(map(re.escape, framing))})", text):
        if piece in framing:
            ids.append(hf.convert_tokens_to_ids(piece))
        else:
            ids += without(vocabulary, framing).encode(unmarked(piece, framing), add_special_tokens=False).ids
    return ids


def unmarked(text: str, framing: tuple[str, ...]) -> str:
    return re.sub("\ue100(\\d+)\ue101", lambda found: framing[int(found[1])], text)


def render(case: dict) -> dict:
    hf = tokenizer(case["vocabulary"])
    template = None
    if case["template"] is not None:
        with open(case["template"], encoding="utf-8") as file:
            template = file.read()
    text = hf.apply_chat_template(
        case["messages"],
        tools=case["tools"] or None,
        chat_template=template,
        add_generation_prompt=case["generation"],
        tokenize=False,
        # Llama 3's template prints today's date otherwise.
        **{"date_string": "26 Jul 2024", **case.get("args", {})},
    )
    framing = tuple(case.get("framing", []))
    return {"text": unmarked(text, framing), "ids": ids_of(text, case["vocabulary"], framing)}


json.dump([render(case) for case in json.load(sys.stdin)], sys.stdout)
