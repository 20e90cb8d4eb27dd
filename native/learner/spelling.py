"""`python -m learner.spelling FOLDER`: how the SentencePiece vocabulary of a model in Hugging Face form treats the
space before a text, told by its tokenizer in transformers.

Prints {"space": true} when a space comes before every text that follows a control token, as llama.cpp puts it by
default, {"space": false} when none does, and {"space": null, "reason": ...} when the tokenizer cuts text in another way
than SentencePiece, whose rules llama.cpp has."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from sentencepiece import SentencePieceProcessor
from transformers import AutoTokenizer

PROBES = [
    "Hello",
    "[INST] A question? [/INST]",
    "\n<|user|>\n",
    "two  spaces, a\ttab\r\n\n\nand lines ",
    'Grüße, 今日は 12345 🙂 — “quotes” \'ll <b>x</b> $1,000.50 {"a": [1]}',
]


def differing(theirs: Callable[[str], list[int]], processor: SentencePieceProcessor) -> str | None:
    return next((text for text in PROBES if theirs(text) != processor.encode(text)), None)


def spelling(folder: Path) -> dict:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    control = tokenizer.bos_token or tokenizer.eos_token
    if control is None:
        return {"space": None, "reason": "it names no token that begins or ends a text"}
    before = len(tokenizer(control, add_special_tokens=False).input_ids)

    def theirs(text: str) -> list[int]:
        return tokenizer(control + text, add_special_tokens=False).input_ids[before:]

    file = str(folder / "tokenizer.model")
    reason = ""
    for space in (True, False):
        processor = SentencePieceProcessor(model_file=file)
        processor.override_normalizer_spec(add_dummy_prefix=space)
        text = differing(theirs, processor)
        if text is None:
            return {"space": space}
        reason = reason or f"{text!r} is {theirs(text)} by tokenizer.json, {processor.encode(text)} by tokenizer.model"
    return {"space": None, "reason": reason}


if __name__ == "__main__":
    print(json.dumps(spelling(Path(sys.argv[1]))))
