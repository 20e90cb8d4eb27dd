"""Makes the untaught base from nothing: a model that is shown lessons of two calls (lessons.mjs), never the task.

`yarn tiny-model --base untaught`. Lessons are played by hone itself and kept in the output folder, where they are found
again. learnt.pt is the model after the first phase, untaught.gguf the finished one.
"""

import argparse
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import torch

from .begin import begin, initialise, prepare_torch
from .export import save_gguf, save_hugging_face
from .traces import Traces, make_traces, read_traces
from .train import Step

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
    parser = argparse.ArgumentParser(prog="yarn tiny-model --base untaught", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build/untaught"), help="folder for all that is made")
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


def main() -> None:
    options = arguments()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    prepare_torch(options.threads, options.seed)

    file = out / "traces" / f"lessons-{WORLD}-{MAILBOXES}.jsonl"
    make_traces(file, seed=WORLD, mailboxes=MAILBOXES, mistakes=None)
    traces = read_traces(file)
    # Mail bodies are in no lesson of this one, so words of theirs are cut into pieces; docs/tiny-model.md.
    sample = [trace for trace in traces if trace[0] == "find"]
    model, tokenizer, trainer = begin(out / "tokenizer.json", sample, options.seed)
    initialise(model, str(out / "learnt.pt") if options.resume else "structured")
    rng = random.Random(options.seed)
    first, second = (given(traces, shares, rng) for shares in (FIRST, SECOND))
    if not options.resume:
        trainer.run(learn_lessons, options.tokens * 1e6, options.minutes, first)
        torch.save(model.state_dict(), out / "learnt.pt")
    trainer.run(reword, options.reword_tokens * 1e6, options.minutes, second)
    save_hugging_face(model, tokenizer, out / "hf")
    save_gguf(model, tokenizer, out / "untaught.gguf", "hone untaught")
    print(f"wrote {out / 'untaught.gguf'}, {(out / 'untaught.gguf').stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
