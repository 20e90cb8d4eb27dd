"""Converts the tokenizer of a GGUF file for transformers, for models that came as GGUF alone.

Supports byte-level BPE with the pre-tokenizers of the models that hone takes. Anything else is refused, since with a
tokenizer that splits text differently the model would behave differently.
"""

import json
from pathlib import Path

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors

from .errors import Refused
from .pre_tokenizer import PATTERNS, ignores_merges


def chat_template(reader: gguf.GGUFReader) -> str | list[dict[str, str]] | None:
    """The file's chat template, or where it has others by name all of them, as transformers takes them."""
    prefix = "tokenizer.chat_template"
    templates = {
        key.removeprefix(prefix).lstrip(".") or "default": field.contents()
        for key, field in reader.fields.items()
        if key == prefix or key.startswith(f"{prefix}.")
    }
    if set(templates) <= {"default"}:
        return templates.get("default")
    return [{"name": name, "template": template} for name, template in templates.items()]


def write_tokenizer(model: str, folder: Path, context: int) -> dict[str, int | None]:
    """Writes tokenizer.json and tokenizer_config.json, with the chat template. Returns the token ids for config.json.

    Raises Refused for other vocabularies.
    """
    reader = gguf.GGUFReader(model)

    def value(key: str, default=None):
        field = reader.get_field(key)
        return default if field is None else field.contents()

    kind, pre = value("tokenizer.ggml.model"), value("tokenizer.ggml.pre")
    if kind != "gpt2" or pre not in PATTERNS:
        raise Refused(
            f"the vocabulary of {model} ({kind}, {pre}) cannot be written for transformers: give --base-folder with "
            "the model's folder in Hugging Face form, whose tokenizer is copied"
        )
    tokens = value("tokenizer.ggml.tokens")
    types = value("tokenizer.ggml.token_type") or [gguf.TokenType.NORMAL] * len(tokens)
    merges = [tuple(merge.split(" ")) for merge in value("tokenizer.ggml.merges", [])]
    # Control and user-defined tokens do not result from merges; their ids come from the vocabulary.
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=ignores_merges(pre)))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERNS[pre]), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()

    def of_type(wanted: gguf.TokenType, special: bool) -> list[AddedToken]:
        chosen = (token for token, its in zip(tokens, types, strict=True) if its == wanted)
        return [AddedToken(token, special=special, normalized=False) for token in chosen]

    tokenizer.add_special_tokens(of_type(gguf.TokenType.CONTROL, special=True))
    tokenizer.add_tokens(of_type(gguf.TokenType.USER_DEFINED, special=False))

    def named(key: str) -> str | None:
        number = value(f"tokenizer.ggml.{key}_token_id")
        return None if number is None else tokens[number]

    bos = named("bos")
    if bos is not None and value("tokenizer.ggml.add_bos_token", pre == "llama-bpe"):
        post = processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, tokens.index(bos))])
        tokenizer.post_processor = post
    # Its own `save` raises no specific error for a full disk.
    (folder / "tokenizer.json").write_text(tokenizer.to_str(pretty=True), encoding="utf-8")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": bos,
        "eos_token": named("eos"),
        "pad_token": named("padding"),
        "unk_token": None,
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
        "chat_template": chat_template(reader),
    }
    text = json.dumps(config, indent=2, ensure_ascii=False)
    (folder / "tokenizer_config.json").write_text(f"{text}\n", encoding="utf-8")
    names = {"bos": "bos", "eos": "eos", "pad": "padding"}
    return {f"{ours}_token_id": value(f"tokenizer.ggml.{theirs}_token_id") for ours, theirs in names.items()}
