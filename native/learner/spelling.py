"""`python -m learner.spelling FOLDER`: how the SentencePiece vocabulary of a model in Hugging Face form treats the
space before a text, determined with its tokenizer in transformers.

Prints {"space": true} when a space comes before every text that follows a control token, as llama.cpp puts it by
default, {"space": false} when none does, and {"space": null, "reason": ...} when the tokenizer splits text differently
from llama.cpp, which merges pieces by their scores, as SentencePiece does with a vocabulary of the kind BPE."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from sentencepiece import SentencePieceProcessor
from tokenizers.models import BPE
from transformers import AutoTokenizer

PROBES = [
    "Hello",
    "[INST] A question? [/INST]",
    "\n<|user|>\n",
    "two  spaces, a\ttab\r\n\n\nand lines ",
    'Grüße, 今日は 12345 🙂 — “quotes” \'ll <b>x</b> $1,000.50 {"a": [1]}',
]


def alike(probes: list[str], theirs: Callable[[str], list[int]], processor: SentencePieceProcessor) -> int:
    """Number of probes, from the first one on, that have the same tokens."""
    different = (number for number, text in enumerate(probes) if theirs(text) != processor.encode(text))
    return next(different, len(probes))


def refused(reason: str) -> dict:
    return {"space": None, "reason": reason}


def spelling(folder: Path) -> dict:
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    control = tokenizer.bos_token or tokenizer.eos_token
    if control is None:
        return refused("its tokenizer names no token that begins or ends a text")
    kind = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    if not isinstance(kind, BPE):
        return refused(
            f"its SentencePiece vocabulary is of the kind {type(kind).__name__}, which llama.cpp would cut into other "
            "tokens; it must be BPE"
        )
    stripping = next((one for one in tokenizer.added_tokens_decoder.values() if one.special and one.rstrip), None)
    if stripping is not None:
        return refused(
            f"its tokenizer drops white space behind {stripping.content}, which stays where hone writes a chat template"
        )
    # The pieces do not include added tokens, such as those of a chat template.
    added = tokenizer.get_added_vocab()
    probes = [text for text in PROBES if not any(token in text for token in added)]
    if not probes:
        return refused("every text that its tokenizer is tried on has a token in it that was added to its vocabulary")
    before = len(tokenizer(control, add_special_tokens=False).input_ids)

    def theirs(text: str) -> list[int]:
        return tokenizer(control + text, add_special_tokens=False).input_ids[before:]

    file = str(folder / "tokenizer.model")
    furthest, reason = -1, ""
    for space in (True, False):
        processor = SentencePieceProcessor(model_file=file)
        processor.override_normalizer_spec(add_dummy_prefix=space)
        count = alike(probes, theirs, processor)
        if count == len(probes):
            return {"space": space}
        if count > furthest:
            text = probes[count]
            ids = f"{text!r} is {theirs(text)} by tokenizer.json, {processor.encode(text)} by tokenizer.model"
            furthest, reason = count, ids
    return refused(f"its SentencePiece vocabulary is not the one of its tokenizer: {reason}")


if __name__ == "__main__":
    print(json.dumps(spelling(Path(sys.argv[1]))))
