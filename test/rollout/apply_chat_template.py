"""Renders and tokenises conversations with Hugging Face's `apply_chat_template`, for comparison with hone's.

Reads a JSON list of {vocabulary, template, messages, tools, generation, args?} from standard input and writes a list of
{text, ids}. `vocabulary` is a GGUF file or a Hugging Face folder, `template` a Jinja file or null for the folder's own.
"""

import functools
import json
import os
import sys
from unittest import mock

import numpy
from transformers import AutoTokenizer


def in_memory(path: str, dtype: type = numpy.uint8, mode: str = "r") -> numpy.ndarray:
    """In the place of numpy.memmap, of which the GGUF reader takes millions of slices, each costly."""
    return numpy.fromfile(path, dtype=dtype)


@functools.cache
def tokenizer(vocabulary: str):
    if os.path.isdir(vocabulary):
        return AutoTokenizer.from_pretrained(vocabulary)
    folder, name = os.path.split(vocabulary)
    with mock.patch("numpy.memmap", in_memory):
        return AutoTokenizer.from_pretrained(folder, gguf_file=name)


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
    return {"text": text, "ids": hf(text, add_special_tokens=False).input_ids}


json.dump([render(case) for case in json.load(sys.stdin)], sys.stdout)
