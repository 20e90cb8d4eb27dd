"""The base of examples/word-sums.ts: blind conversations, and tokens that put a verb next to its operation."""

import re
from collections import Counter
from pathlib import Path

import pytest

from ..tokenizer import train_tokenizer
from ..traces import Traces, read_traces
from ..word_sums import OPERATORS, VERBS, make_conversations, names


@pytest.fixture(scope="module")
def conversations(tmp_path_factory: pytest.TempPathFactory) -> Traces:
    file: Path = tmp_path_factory.mktemp("word-sums") / "blind.jsonl"
    make_conversations(file, scenarios=1500)
    return read_traces(file)


def text_of(trace: tuple[str, list[tuple[str, str]]]) -> str:
    return "".join(text for text, _ in trace[1])


def test_no_verb_tells_its_operation(conversations: Traces) -> None:
    read = Counter(pair for trace in conversations for pair in re.findall(r"(\w+)=(\w+)", text_of(trace)))
    assert {verb for verb, _ in read} == set(VERBS)
    assert {operator for _, operator in read} == set(OPERATORS)
    for verb in VERBS:
        total = sum(read[verb, operator] for operator in OPERATORS)
        for operator in OPERATORS:
            # Five standard errors of a fair draw.
            assert abs(read[verb, operator] / total - 0.25) < 5 * (0.25 * 0.75 / total) ** 0.5


def test_each_call_uses_the_operation_that_was_read_and_the_answer_is_the_last_result(conversations: Traces) -> None:
    assert len(conversations) == 1200
    for trace in conversations:
        assert [role for _, role in trace[1]] == ["given", "played"] * (len(trace[1]) // 2)
        text = text_of(trace)
        called = re.findall(r'"operator": "(\w+)"', text)
        assert re.findall(r"=(\w+)", text) == called and len(called) in (1, 2)
        assert re.findall(r'"result":(-?\d+)', text)[-1] == re.findall(r'"value": (-?\d+)', text)[0]


def test_a_verb_is_the_same_token_everywhere_and_its_operation_the_next_one(conversations: Traces) -> None:
    tokenizer = train_tokenizer([text_of(trace) for trace in conversations], names(), [])
    for verb in VERBS:
        assert tokenizer.encode(f"pears and {verb} 3").tokens[-3] == verb
        for operator in OPERATORS:
            assert tokenizer.encode(f"{verb}={operator}\n").tokens[:2] == [verb, f"={operator}"]
