"""Training traces: made by traces.mjs, kept as files, read as token ids with a role for each token."""

import json
import random
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from .tokenizer import RENAMED_POOLS

RECIPE = Path(__file__).parent
ROOT = RECIPE.parents[2]
# Roles of tokens; see traces.mjs.
ROLES = {"given": 0, "played": 1}
USER_TURN = "<|im_start|>user\n"
# More than a conversation has names.
SYMBOLS = 256
# Letters of symbols; a syllable may do without the last.
OPENING, VOWELS, CLOSING = "bcdfghjklmnprstvwz", "aeiou", "lmnrstx"

# Texts with their roles, in order.
Pieces = list[tuple[str, str]]
# Conversations: name of the lesson, pieces.
Traces = Sequence[tuple[str, Pieces]]


@dataclass(frozen=True)
class Trace:
    """One conversation. `pieces` holds (ids, role) in order."""

    kind: str
    pieces: list[tuple[list[int], int]]

    def __len__(self) -> int:
        return sum(len(ids) for ids, _ in self.pieces)


def world_names() -> dict[str, list[str]]:
    """Names of the synthetic world by pool; the pool "reserved" is in no text that is trained on."""
    printed = subprocess.run(["node", RECIPE / "names.mjs"], check=True, capture_output=True, text=True)
    return json.loads(printed.stdout)


def make_traces(file: Path, *, seed: int, mailboxes: int) -> None:
    """Builds a world of its own and has the lessons played on its training questions; does nothing when the file is
    there."""
    if file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    database, unfinished = file.with_suffix(".db"), file.with_suffix(".part")
    world = ["--seed", str(seed), "--mailboxes", str(mailboxes), "--db", database, "--json"]
    subprocess.run(["node", ROOT / "dist/src/cli.js", "build-db", *world], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["node", RECIPE / "traces.mjs", "--db", database, "--out", unfinished], check=True)
    database.unlink()
    unfinished.rename(file)


def read_traces(file: Path) -> Traces:
    with file.open(encoding="utf-8") as lines:
        traces = [json.loads(line) for line in lines]
    return [(trace["kind"], [(text, role) for text, role in trace["pieces"]]) for trace in traces]


def make_symbols(names: Mapping[str, Sequence[str]]) -> list[str]:
    """Invented words, always the same, none of them a name."""
    rng = random.Random(1)
    known = {word.lower() for pool in names.values() for word in pool}

    def syllable() -> str:
        return rng.choice(OPENING) + rng.choice(VOWELS) + (rng.choice(CLOSING) if rng.random() < 0.5 else "")

    symbols: dict[str, None] = {}
    while len(symbols) < SYMBOLS:
        word = "".join(syllable() for _ in range(rng.choice((2, 3))))
        if word not in known:
            symbols[word.capitalize()] = None
    return list(symbols)


class Renamer:
    """Replaces names by symbols, the same ones all through a conversation.

    A symbol is one token, and its embedding is another one at every step of training: what it was cannot be learned,
    only that it is copied. So copying becomes a skill that works for any token, also for names that no training has.
    """

    def __init__(self, names: Mapping[str, Sequence[str]], symbols: Sequence[str], share: float):
        """`share`: of names replaced in each conversation it is called for."""
        self.share, self.symbols = share, symbols
        self.known = {word for pool in RENAMED_POOLS for word in names[pool]}
        self.lower = {word.lower(): word for pool in ("first", "last") for word in names[pool]}

    def __call__(self, pieces: Pieces, rng: random.Random) -> Pieces:
        chosen: dict[str, str] = {}
        unused = rng.sample(self.symbols, len(self.symbols))

        def replacement(name: str) -> str:
            if name not in chosen:
                chosen[name] = unused.pop() if rng.random() < self.share else name
            return chosen[name]

        def replace(match: re.Match[str]) -> str:
            word = match[0]
            if word in self.known:
                return replacement(word)
            return replacement(self.lower[word]).lower() if word in self.lower else word

        return [(re.sub(r"[A-Za-z]+", replace, text), role) for text, role in pieces]


def encode(traces: Traces, tokenizer: Tokenizer) -> list[Trace]:
    """Token ids of each piece by itself, as rollouts make them."""
    texts = [text for _, pieces in traces for text, _ in pieces]
    ids = iter(encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False))
    return [Trace(kind, [(next(ids), ROLES[role]) for _, role in pieces]) for kind, pieces in traces]


def excerpt(pieces: Pieces, rng: random.Random) -> Pieces:
    """A short part of a conversation, without the system prompt: the first call; the search and the choice of a mail;
    or the last mail and the answer. Copying is learned from these first, at a fraction of the cost."""
    prompt, role = pieces[0]
    question = (prompt[prompt.index(USER_TURN) :], role)
    end = rng.choices((2, 4, len(pieces)), (0.2, 0.35, 0.45))[0]
    return [question, *pieces[max(1, end - 3) : end]]
