"""The tiny model's tokenizer: byte-level BPE with Qwen2's pre-tokenizer, small, and with one rule of its own.

A name is always the same token: after a space, a quote, a tag or nothing ("Wanda", " Wanda", ">Wanda"). An attention
head that copies tokens can then copy names from a mail into a call. Ordinary BPE has " Wanda" and "Wanda" as strangers,
and models trained on that mixed names up. So merges are learned in two stages: first inside words, without what stands
before them; then a space (or "_", "-", ...) is joined to frequent words that are no names.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

# Qwen2's: a letter run takes one leading character that is no letter, digit or line end with it.
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# The same, but the leading character stands alone.
BARE_WORDS = r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s"
SMALLEST_COUNT = 30
# Names that may be replaced by others; months, topics and ids stay.
RENAMED_POOLS = ("first", "last", "projects", "companies", "places")


def special_tokens() -> dict[str, list[str]]:
    """Tokens that the chat template places ("control"), and tags that models write themselves ("text")."""
    return json.loads((Path(__file__).parent / "tokens.json").read_text())


def _splitter(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def _byte_level(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [_splitter(pattern), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )


def always_whole(names: Mapping[str, Sequence[str]], symbols: Sequence[str]) -> set[str]:
    """All names and symbols; those that may be people also as they stand in addresses."""
    words = {word for pool in names.values() for word in pool}
    people = {word.lower() for word in (*names["first"], *names["last"])}
    return words | people | _with_lower((*names["reserved"], *symbols))


def _with_lower(words: Iterable[str]) -> set[str]:
    return {form for word in words for form in (word, word.lower())}


def drawn_tokens(tokenizer: Tokenizer, names: Mapping[str, Sequence[str]], symbols: Sequence[str]) -> list[int]:
    """Ids of the words whose embeddings are drawn, not learned: symbols and reserved names."""
    words = sorted(_with_lower((*names["reserved"], *symbols)))
    return [tokenizer.token_to_id(word) for word in words]


def name_tokens(tokenizer: Tokenizer, names: Mapping[str, Sequence[str]]) -> list[int]:
    """Ids of the names of people, places, companies and projects that training has."""
    return [tokenizer.token_to_id(word) for pool in RENAMED_POOLS for word in names[pool]]


def _merges_inside_words(texts: Iterable[str], names: set[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Stage one: every word of the texts and every name becomes one token."""
    splitter = _splitter(BARE_WORDS)
    pieces = Counter(piece for text in texts for piece, _ in splitter.pre_tokenize_str(text))
    for name in names:
        pieces[name] += SMALLEST_COUNT
    lines = [piece for piece, count in sorted(pieces.items()) if count >= SMALLEST_COUNT for _ in range(2)]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = _byte_level(BARE_WORDS)
    trainer = trainers.BpeTrainer(
        vocab_size=100_000,
        min_frequency=2,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def _join_prefixes(
    texts: Iterable[str], names: set[str], vocabulary: dict[str, int], merges: list[tuple[str, str]]
) -> None:
    """Stage two, in place: " the" and "_id" become one token each, " Wanda" does not."""
    splitter = _splitter(QWEN2)
    pieces = Counter(piece for text in texts for piece, _ in splitter.pre_tokenize_str(text))
    alphabet = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for piece, count in pieces.most_common():
        prefix, word = piece[0], piece[1:]
        if count < SMALLEST_COUNT or not word.isalpha() or prefix.isalpha() or prefix in '>"' or word in names:
            continue
        start = alphabet.pre_tokenize_str(prefix)[0][0]
        if word in vocabulary and start in vocabulary and start + word not in vocabulary:
            vocabulary[start + word] = len(vocabulary)
            merges.append((start, word))


def train_tokenizer(texts: Sequence[str], names: Mapping[str, Sequence[str]], symbols: Sequence[str]) -> Tokenizer:
    """Trains on the texts of whole conversations. The vocabulary ends with the special tokens."""
    special = special_tokens()
    cut = [*special["control"], *special["text"]]
    plain = list(texts)
    for token in cut:
        plain = [text.replace(token, "\n") for text in plain]
    whole = always_whole(names, symbols)
    vocabulary, merges = _merges_inside_words(plain, whole)
    _join_prefixes(plain, whole, vocabulary, merges)

    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = _byte_level(QWEN2)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special["control"]])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in special["text"]])
    return tokenizer
