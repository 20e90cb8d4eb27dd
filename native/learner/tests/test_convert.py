"""Pre-tokenizers that llama.cpp's converter does not know by their ids are recognised by their definition."""

import json
from random import Random

import pytest
from learner.convert import recognising
from learner.pre_tokenizer import PATTERNS, pre_tokenizer_of
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers


def defined(pattern: str, **options) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(vocab={"a": 0, "b": 1, "ab": 2}, merges=[("a", "b")], **options))
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, last])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


class Wrapped:
    """A tokenizer of transformers, as far as it is used."""

    def __init__(self, backend: Tokenizer):
        self.backend_tokenizer = backend


def unknown(_converter, _tokenizer):
    raise NotImplementedError("BPE pre-tokenizer was not recognized")


@pytest.mark.parametrize(("name", "ignore_merges"), [("qwen2", False), ("llama-bpe", True), ("smollm", False)])
def test_a_small_vocabulary_is_recognised_by_its_definition(name, ignore_merges):
    tokenizer = defined(PATTERNS[name], ignore_merges=ignore_merges)
    assert recognising(unknown)(None, Wrapped(tokenizer)) == name
    tokenizer.normalizer = normalizers.NFC()
    assert recognising(unknown)(None, Wrapped(tokenizer)) == name


def test_smollm_is_split_as_its_published_tokenizer_splits():
    published = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    ours = defined(PATTERNS["smollm"]).pre_tokenizer
    random = Random(1)
    for _ in range(3000):
        text = "".join(
            random.choices(["a", "Z", "é", "7", "٣", "½", " ", " ", "\n", "\t", "'s", "'S", "'", ".", "漢"], k=12)
        )
        assert ours.pre_tokenize_str(text) == published.pre_tokenize_str(text), repr(text)


def test_what_the_converter_knows_stays_its_own():
    assert recognising(lambda *_: "smollm")(None, Wrapped(defined(PATTERNS["qwen2"]))) == "smollm"


def change(make) -> dict:
    tokenizer = defined(PATTERNS["qwen2"])
    make(tokenizer)
    return json.loads(tokenizer.to_str())


def lower(tokenizer):
    tokenizer.normalizer = normalizers.Lowercase()


def by_words(tokenizer):
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)


def with_space(tokenizer):
    split = pre_tokenizers.Split(Regex(PATTERNS["qwen2"]), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=True)])


def without_splitting(tokenizer):
    tokenizer.pre_tokenizer = None


@pytest.mark.parametrize("other", [lower, by_words, with_space, without_splitting])
def test_another_split_is_refused(other):
    definition = change(other)
    assert pre_tokenizer_of(definition) is None


@pytest.mark.parametrize(
    "tokenizer",
    [
        defined(PATTERNS["qwen2"].replace(r"\p{N}", r"\p{N}{1,2}")),
        defined(PATTERNS["qwen2"], ignore_merges=True),
        defined(PATTERNS["llama-bpe"]),
        defined(PATTERNS["qwen2"], byte_fallback=True),
    ],
)
def test_another_expression_or_way_of_merging_is_refused_as_before(tokenizer):
    with pytest.raises(NotImplementedError, match="not recognized"):
        recognising(unknown)(None, Wrapped(tokenizer))
