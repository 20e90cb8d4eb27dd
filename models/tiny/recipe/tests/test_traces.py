import random
from collections.abc import Iterator
from itertools import islice

import pytest
from tokenizers import Tokenizer

from ..batches import collate, groups
from ..traces import Renamer, Trace, encode, excerpt, make_symbols
from .sample import NAMES, SYMBOLS, conversation


def test_renaming_is_the_same_all_through_a_conversation_and_follows_case() -> None:
    renamed = Renamer(NAMES, SYMBOLS, share=1)(conversation(), random.Random(1))
    text = "".join(text for text, _ in renamed)
    first, last = renamed[5][0].split('"answer": "')[1].split('"')[0].split(" ")
    assert "Wanda" not in text and "Falcon" not in text
    assert {first, last} <= set(SYMBOLS)
    assert f"is {first} {last}, {first.lower()}.{last.lower()}@acme.example" in text
    assert [role for _, role in renamed] == [role for _, role in conversation()]


def test_renaming_leaves_all_as_it_is_at_share_zero() -> None:
    assert Renamer(NAMES, SYMBOLS, share=0)(conversation(), random.Random(1)) == conversation()


def test_symbols_are_no_names_and_more_than_a_conversation_needs() -> None:
    symbols = make_symbols(NAMES)
    assert len({symbol.lower() for symbol in symbols}) == len(symbols) >= 200
    assert not {symbol.lower() for symbol in symbols} & {name.lower() for pool in NAMES.values() for name in pool}


def test_an_excerpt_starts_with_the_question_and_ends_with_a_turn_of_the_expert() -> None:
    rng = random.Random(2)
    for _ in range(20):
        pieces = excerpt(conversation(), rng)
        assert pieces[0][0].startswith("<|im_start|>user\nWho leads")
        assert pieces[-1][1] == "played"


def test_only_the_experts_tokens_are_trained(tokenizer: Tokenizer) -> None:
    [trace] = encode([("who", conversation())], tokenizer)
    batch = collate([trace], given=0, rng=random.Random(0))
    assert batch.ids[0].tolist() == [token for ids, _ in trace.pieces for token in ids]
    assert batch.weights.sum().item() == sum(len(trace.pieces[piece][0]) for piece in (1, 3, 5))
    assert batch.played.sum() == batch.weights.sum()


def test_padding_is_never_trained(tokenizer: Tokenizer) -> None:
    traces = encode([("who", conversation()), ("who", conversation()[:2])], tokenizer)
    batch = collate(traces, given=1, rng=random.Random(0))
    assert batch.weights[1, len(traces[1]) :].sum() == 0
    assert batch.weights[1, 1 : len(traces[1])].min() > 0


@pytest.fixture
def endless() -> Iterator[Trace]:
    rng = random.Random(3)
    return (Trace("who", [([1] * rng.randrange(20, 300), 1)]) for _ in iter(int, 1))


def test_batches_hold_about_the_asked_tokens_with_little_padding(endless: Iterator[Trace]) -> None:
    batches = list(islice(groups(endless, 2_000, random.Random(4)), 200))
    padded = [max(len(trace) for trace in batch) * len(batch) for batch in batches]
    used = [sum(len(trace) for trace in batch) for batch in batches]
    assert max(padded) <= 2_000
    assert sum(used) / sum(padded) > 0.9
