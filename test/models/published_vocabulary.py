"""The whole vocabularies and the chat templates that makers of models publish, in Hugging Face's form. llama.cpp's
source carries their merges or pieces and their templates; what the makers named beside those is below. What comes out
is held against the published tokenizer.json by a checksum, and against ids that llama.cpp keeps of the makers' own
tokenizers."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import gguf
import numpy
import vocabulary
from sentencepiece import SentencePieceProcessor
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import GemmaTokenizer, LlamaTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import generate_merges

QWEN_CONTROL = [
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
QWEN_CODE = ["fim_prefix", "fim_middle", "fim_suffix", "fim_pad", "repo_name", "file_sep"]
# Tokens after the merges, in order: their texts, and whether they are control tokens or text that is one token.
QWEN25 = [
    *((f"<|{name}|>", True) for name in QWEN_CONTROL),
    ("<tool_call>", False),
    ("</tool_call>", False),
    *((f"<|{name}|>", False) for name in QWEN_CODE),
]
QWEN3 = [*QWEN25, *((text, False) for text in ("<tool_response>", "</tool_response>", "<think>", "</think>"))]
# Of 256, by their places; all others are reserved, and numbered.
LLAMA3_NAMED = {
    0: "begin_of_text",
    1: "end_of_text",
    4: "finetune_right_pad_id",
    6: "start_header_id",
    7: "end_header_id",
    8: "eom_id",
    9: "eot_id",
    10: "python_tag",
}


def _llama3() -> list[tuple[str, bool]]:
    reserved = iter(range(256))
    names = [LLAMA3_NAMED.get(place) or f"reserved_special_token_{next(reserved)}" for place in range(256)]
    return [(f"<|{name}|>", True) for name in names]


# By family: llama.cpp's vocabulary and pre-tokenizer, what follows the merges, the template, and the checksum of the
# published tokens and merges (`checksum` below). Qwen2.5's are Qwen3's without the last four.
BYTE_LEVEL: dict[str, tuple[str, list[tuple[str, bool]], str, str]] = {
    "qwen2.5": (
        "qwen2",
        QWEN25,
        vocabulary.TEMPLATE["qwen2"],
        "60148fa15ec68adbd2d09d7fc80e7dcaf5aed7e6d2f250d8e155161d1f77ae99",
    ),
    "qwen3": (
        "qwen2",
        QWEN3,
        vocabulary.TEMPLATE["qwen3"],
        "4c4efb30843a7c59b505af0a10089ce48267d9c06e049f1388c3e37bf875eb6f",
    ),
    "llama3.2": (
        "llama-bpe",
        _llama3(),
        vocabulary.TEMPLATE["llama"],
        "461de0480902c272f9d6c79db80a7543005b9f345d1db4be550eca2b3ef8f026",
    ),
}

QWEN_ABOUT = {
    "add_bos_token": False,
    "add_prefix_space": False,
    "bos_token": None,
    "clean_up_tokenization_spaces": False,
    "eos_token": "<|im_end|>",
    "errors": "replace",
    "model_max_length": 131072,
    "pad_token": "<|endoftext|>",
    "split_special_tokens": False,
    "tokenizer_class": "Qwen2Tokenizer",
    "unk_token": None,
}
# Gemma's first tokens; in place of Llama 2's first three.
GEMMA_CONTROL = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>", "<end_of_turn>"]
LLAMA2_ABOUT = {
    "add_bos_token": True,
    "add_eos_token": False,
    "bos_token": "<s>",
    "clean_up_tokenization_spaces": False,
    "eos_token": "</s>",
    "legacy": True,
    "model_max_length": 4096,
    "pad_token": None,
    "tokenizer_class": "LlamaTokenizer",
    "unk_token": "<unk>",
}
ABOUT: dict[str, dict[str, Any]] = {
    "qwen2.5": QWEN_ABOUT,
    "qwen3": QWEN_ABOUT,
    "llama3.2": {
        "bos_token": "<|begin_of_text|>",
        "clean_up_tokenization_spaces": True,
        "eos_token": "<|eot_id|>",
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": 131072,
        "tokenizer_class": "PreTrainedTokenizerFast",
    },
    "llama2": LLAMA2_ABOUT,
    # Of the same tokenizer and the same vocabulary until v0.3.
    "mistral": LLAMA2_ABOUT | {"model_max_length": 32768},
    "gemma3": {
        "add_bos_token": True,
        "add_eos_token": False,
        "added_tokens_decoder": {
            str(number): {"content": text, "special": True, **dict.fromkeys(("lstrip", "normalized", "rstrip"), False)}
            for number, text in enumerate(GEMMA_CONTROL)
        },
        "bos_token": "<bos>",
        "clean_up_tokenization_spaces": False,
        "eos_token": "<eos>",
        "model_max_length": 32768,
        "pad_token": "<pad>",
        "sp_model_kwargs": None,
        "spaces_between_special_tokens": False,
        "tokenizer_class": "GemmaTokenizer",
        "unk_token": "<unk>",
    },
}
# In the manner of Llama 2's and Mistral 7B's: "[INST]" is text, and a turn of the model ends with </s>.
INST_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message.role == 'assistant' %}{{ message.content + eos_token }}"
    "{% else %}{{ '[INST] ' + message.content + ' [/INST]' }}{% endif %}"
    "{% endfor %}"
)


def checksum(words: dict[str, int], merges: list[tuple[str, str]], added: list[tuple[str, bool]]) -> str:
    """Of a tokenizer.json: model.vocab by ids, model.merges, and text and `special` of its added_tokens."""
    digest = hashlib.sha256()
    for part in (sorted(words, key=words.__getitem__), map(" ".join, merges), (f"{text} {own}" for text, own in added)):
        digest.update("\0".join(part).encode() + b"\1")
    return digest.hexdigest()


def _in_memory(path: str, dtype: type = numpy.uint8, mode: str = "r") -> numpy.ndarray:
    """In the place of numpy.memmap, of which the GGUF reader takes millions of slices, each costly."""
    return numpy.fromfile(path, dtype=dtype)


def _fields(source: Path, name: str) -> dict[str, Any]:
    with mock.patch("numpy.memmap", _in_memory):
        reader = gguf.GGUFReader(source / "models" / f"ggml-vocab-{name}.gguf")
        return {key: field.contents() for key, field in reader.fields.items() if key.startswith("tokenizer.")}


def byte_level(source: Path, family: str) -> PreTrainedTokenizerFast:
    pre, added, _, published = BYTE_LEVEL[family]
    fields = _fields(source, pre)
    kinds = fields["tokenizer.ggml.token_type"]
    words = {
        token: number
        for number, token in enumerate(fields["tokenizer.ggml.tokens"])
        if kinds[number] == gguf.TokenType.NORMAL
    }
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    assert checksum(words, merges, added) == published, f"the vocabulary of {family} is not the published one"
    made = Tokenizer(models.BPE(words, merges, ignore_merges=pre == "llama-bpe"))
    if pre == "qwen2":
        made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(vocabulary.PATTERN[pre]), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    made.add_tokens([AddedToken(text, special=special, normalized=False) for text, special in added])
    if pre == "llama-bpe":
        made.post_processor = vocabulary.begin_with("<|begin_of_text|>", made)
    roles = {name: ABOUT[family][name] for name in ("eos_token", "bos_token", "pad_token") if ABOUT[family].get(name)}
    return PreTrainedTokenizerFast(tokenizer_object=made, **roles)


def sentencepiece(source: Path, folder: Path, control: list[str] | None = None) -> PreTrainedTokenizerBase:
    """Llama 2's, whose pieces have scores; `folder` gets the tokenizer.model that SentencePiece itself reads.

    With `control`, Gemma's tokens that take the place of Llama 2's three, the pieces are used as Gemma uses its own.
    """
    fields = _fields(source, "llama-spm")
    pieces, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    numbers = fields["tokenizer.ggml.scores"]
    if control is not None:
        own = {"<unk>": gguf.TokenType.UNKNOWN, "<start_of_turn>": gguf.TokenType.USER_DEFINED}
        own["<end_of_turn>"] = gguf.TokenType.USER_DEFINED
        kinds = [own.get(text, gguf.TokenType.CONTROL) for text in control] + kinds[3:]
        pieces, numbers = control + pieces[3:], [0.0] * len(control) + numbers[3:]
    scores = dict(zip(pieces, numbers, strict=True))
    words = {piece: number for number, piece in enumerate(pieces)}
    (folder / "tokenizer.model").write_bytes(b"".join(_piece_model(scores, kinds, space=control is None)))
    merges = generate_merges({p: i for p, i in words.items() if kinds[i] == gguf.TokenType.NORMAL}, scores)
    if control is None:
        return LlamaTokenizer(vocab=words, merges=merges, legacy=True)
    made = GemmaTokenizer(vocab=words, merges=merges)
    made.add_special_tokens({"additional_special_tokens": control[-2:]})
    return made


def _piece_model(scores: dict[str, float], kinds: list[int], space: bool) -> Iterator[bytes]:
    """A ModelProto of SentencePiece (sentencepiece_model.proto), field by field: its Python classes need protobuf."""

    def number(value: int) -> bytes:
        head = b""
        while value > 0x7F:
            head, value = head + bytes([value & 0x7F | 0x80]), value >> 7
        return head + bytes([value])

    def field(place: int, content: bytes | int) -> bytes:
        if isinstance(content, int):
            return number(place << 3) + number(content)
        return number(place << 3 | 2) + number(len(content)) + content

    # Types of pieces have the same numbers in GGUF.
    for (piece, score), kind in zip(scores.items(), kinds, strict=True):
        yield field(1, field(1, piece.encode()) + number(2 << 3 | 5) + struct.pack("<f", score) + field(3, int(kind)))
    # Byte-pair merges, bytes for what has no piece; spaces are kept, and with `space` one stands before the text.
    yield field(2, field(3, 2) + field(35, 1))
    yield field(3, field(1, b"identity") + field(3, int(space)) + field(4, 0) + field(5, 1))


def check_known(encode: Callable[[str], list[int]], source: Path, name: str) -> None:
    """Ids that the makers' own tokenizer has for texts with all that is awkward, as llama.cpp's tests have them."""
    texts = (source / "models" / f"ggml-vocab-{name}.gguf.inp").read_text(encoding="utf-8")
    known = (source / "models" / f"ggml-vocab-{name}.gguf.out").read_text(encoding="utf-8")
    for text, ids in zip(texts.split("\n__ggml_vocab_test__\n"), known.split("\n"), strict=False):
        made = encode(text)
        assert made == [int(number) for number in ids.split()], f"{text!r} is {ids} by {name}, here {made}"


def write(family: str, source: Path, folder: Path) -> PreTrainedTokenizerBase:
    """tokenizer.json, and beside it what the makers say of it, the chat template included."""
    folder.mkdir(parents=True, exist_ok=True)
    if family in ("llama2", "mistral"):
        made, template = sentencepiece(source, folder), INST_TEMPLATE
        # transformers 5 cuts a text that begins with a space otherwise than SentencePiece, and than transformers 4.
        check_known(SentencePieceProcessor(model_file=str(folder / "tokenizer.model")).encode, source, "llama-spm")
    elif family == "gemma3":
        made = sentencepiece(source, folder, GEMMA_CONTROL)
        template = vocabulary.own_template(family)
    else:
        known, _, name, _ = BYTE_LEVEL[family]
        made = byte_level(source, family)
        template = (source / "models" / "templates" / name).read_text(encoding="utf-8")
        check_known(lambda text: made(text, add_special_tokens=False).input_ids, source, known)
    made.save_pretrained(folder)
    about = ABOUT[family] | {"chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(about, indent=2))
    return made
