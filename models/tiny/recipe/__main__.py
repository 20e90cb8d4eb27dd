"""Makes the tiny model from nothing: lessons, tokenizer, initial weights, training, Hugging Face folder, GGUF.

Lessons are of two calls (lessons.mjs), never the task. They are played by hone itself and kept in the output folder,
where they are found again. learnt.pt is the model after the first phase, tiny.gguf the finished one.
"""

import argparse
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import torch
from tokenizers import Tokenizer

from .export import save_gguf, save_hugging_face
from .initialise import initialise_structured
from .model import Shape, TinyModel
from .tokenizer import drawn_tokens, name_tokens, train_tokenizer
from .traces import Renamer, Traces, make_symbols, make_traces, read_traces, world_names
from .train import RENAMED_NAMES, DrawnEmbeddings, Step, Trainer

# Seed of the world that training may see; build-db's default is 1.
WORLD = 9_001
MAILBOXES = 600
# How often each lesson is given, of every scenario's four. In the first phase the words of a question tell whether a
# search follows or a read; in the second they are the task's own, and seldom ask to open what was found.
FIRST = {"find": 0.5, "tell": 1.0}
SECOND = {"find": 0.2, "name": 0.8, "open": 0.2, "tell": 0.8}


def learn_lessons(done: float) -> Step:
    """The first phase, `done` of the way (0 to 1): excerpts first, then mostly whole conversations."""
    return Step(
        rate=1 if done < 0.5 else max(0.02, 2 * (1 - done)),
        excerpts=1 if done < 0.15 else max(0.3, 1 - 0.7 * (done - 0.15) / 0.2),
        given=0.15 if done < 0.3 else 0.03,
    )


def reword(done: float) -> Step:
    """The second phase, at a low rate: the lessons in the words of the task's questions."""
    return Step(rate=0.25 * max(0.05, 1 - done), given=0.015)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="yarn tiny-model", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build/tiny"), help="folder for all that is made")
    parser.add_argument("--tokens", type=float, default=1.5, help="millions of tokens of the first phase")
    parser.add_argument("--reword-tokens", type=float, default=0.3, help="millions of tokens of the second phase")
    parser.add_argument("--minutes", type=float, default=90, help="minutes that a phase may take at most")
    parser.add_argument("--threads", type=int, default=1, help="more than the free cores makes training slower")
    parser.add_argument("--seed", type=int, default=0, help="of weights and batches; lessons have their own")
    parser.add_argument("--resume", action="store_true", help="start at the second phase, from learnt.pt in --out")
    return parser.parse_args()


def given(traces: Traces, shares: Mapping[str, float], rng: random.Random) -> Traces:
    chosen = [(lesson, pieces) for lesson, pieces in traces if lesson in shares and rng.random() < shares[lesson]]
    print(f"{len(chosen)} conversations of two calls each, {dict(Counter(lesson for lesson, _ in chosen))}", flush=True)
    return chosen


def prepare_torch(threads: int, seed: int) -> None:
    # Sharp attention has many numbers that are nearly zero, and those cost most.
    torch.set_flush_denormal(True)
    torch.set_num_threads(threads)
    torch.manual_seed(seed)


def tokenizer_of(file: Path, sample: Traces, names: dict[str, list[str]], symbols: list[str]) -> Tokenizer:
    if not file.exists():
        train_tokenizer(["".join(text for text, _ in pieces) for _, pieces in sample], names, symbols).save(str(file))
    return Tokenizer.from_file(str(file))


def begin(file: Path, sample: Traces, seed: int) -> tuple[TinyModel, Tokenizer, Trainer]:
    """`file`: the tokenizer, trained on `sample` where it is missing. The model still lacks its initial weights."""
    names = world_names()
    symbols = make_symbols(names)
    tokenizer = tokenizer_of(file, sample, names, symbols)
    model = TinyModel(Shape(tokenizer.get_vocab_size()))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{parameters / 1e6:.2f} M parameters, {tokenizer.get_vocab_size()} tokens in the vocabulary", flush=True)
    rare = DrawnEmbeddings(
        model.model.embed_tokens.weight,
        drawn_tokens(tokenizer, names, symbols),
        name_tokens(tokenizer, names),
    )
    return model, tokenizer, Trainer(model, tokenizer, Renamer(names, symbols, RENAMED_NAMES), rare, seed, print)


def main() -> None:
    options = arguments()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    prepare_torch(options.threads, options.seed)

    file = out / "traces" / f"lessons-{WORLD}-{MAILBOXES}.jsonl"
    make_traces(file, seed=WORLD, mailboxes=MAILBOXES)
    traces = read_traces(file)
    # No mail's body is in these, so words that only bodies have are cut into pieces.
    sample = [trace for trace in traces if trace[0] == "find"]
    model, tokenizer, trainer = begin(out / "tokenizer.json", sample, options.seed)
    if options.resume:
        model.load_state_dict(torch.load(out / "learnt.pt"))
    else:
        initialise_structured(model)
    rng = random.Random(options.seed)
    first, second = (given(traces, shares, rng) for shares in (FIRST, SECOND))
    if not options.resume:
        trainer.run(learn_lessons, options.tokens * 1e6, options.minutes, first)
        torch.save(model.state_dict(), out / "learnt.pt")
    trainer.run(reword, options.reword_tokens * 1e6, options.minutes, second)
    save_hugging_face(model, tokenizer, out / "hf")
    save_gguf(model, tokenizer, out / "tiny.gguf")
    print(f"wrote {out / 'tiny.gguf'}, {(out / 'tiny.gguf').stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
