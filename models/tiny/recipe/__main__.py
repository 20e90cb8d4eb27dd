"""Makes the tiny model from nothing: traces, tokenizer, initial weights, training, Hugging Face folder, GGUF.

Traces are played by hone itself and kept in the output folder, where they are found again. perfect.gguf is the model
after the first phase, tiny.gguf the finished one. untaught.py makes another base of the same parts.
"""

import argparse
import hashlib
import json
from pathlib import Path

import torch

from .begin import begin, initialise, prepare_torch
from .export import save_gguf, save_hugging_face
from .traces import Traces, make_traces, read_traces
from .train import learn, spoil

# Seeds of the worlds that training may see; build-db's default is 1. Message ids grow longer past this many mailboxes.
FIRST_WORLD = 9_001
FIRST_SPOILT_WORLD = 9_101
MAILBOXES = 1_300
# Slips that the expert mends, in the first phase: an empty search, a read that fails.
MENDED = {"bad_keywords": 0.12, "misspelt_id": 0.12}
# Habits of the second phase, each with its share of the conversations, independent of the others.
HABITS = {
    "bad_keywords": 0.2,
    "loose_keywords": 0.3,
    "misspelt_id": 0.1,
    "wrong_mail": 0.2,
    "trusts_wrong_mail": 0.3,
    "answers_unread": 0.2,
    "gives_up_early": 0.35,
    "cites_too_much": 0.15,
    "cites_nothing": 0.15,
}
TOKENIZER_SAMPLE = 4_000


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="yarn tiny-model", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build/tiny"), help="folder for all that is made")
    parser.add_argument("--tokens", type=float, default=8, help="millions of tokens of the first phase")
    parser.add_argument("--minutes", type=float, default=90, help="minutes that the first phase may take at most")
    parser.add_argument("--spoil-tokens", type=float, default=0.8, help="millions of tokens of the second phase")
    parser.add_argument("--worlds", type=int, default=2, help="worlds of perfect traces, 10,400 conversations each")
    parser.add_argument("--threads", type=int, default=1, help="more than the free cores makes training slower")
    parser.add_argument("--seed", type=int, default=0, help="of weights and batches; traces have their own")
    parser.add_argument(
        "--initial", default="structured", help="initial weights: structured, standard, or a perfect.pt"
    )
    parser.add_argument("--resume", action="store_true", help="start at the second phase, from perfect.pt in --out")
    return parser.parse_args()


def traces_of(folder: Path, world: int, mailboxes: int, mistakes: dict[str, float]) -> Traces:
    """Makes them where they are missing. The file is named after what is in it: other mistakes, another file."""
    shares = hashlib.sha256(json.dumps(mistakes, sort_keys=True).encode()).hexdigest()[:8]
    file = folder / f"world-{world}-{mailboxes}-{shares}.jsonl"
    make_traces(file, seed=world, mailboxes=mailboxes, mistakes=mistakes)
    return read_traces(file)


def main() -> None:
    options = arguments()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    prepare_torch(options.threads, options.seed)

    worlds = range(FIRST_WORLD, FIRST_WORLD + options.worlds)
    perfect = [trace for world in worlds for trace in traces_of(out / "traces", world, MAILBOXES, MENDED)]
    spoilt = traces_of(out / "traces", FIRST_SPOILT_WORLD, MAILBOXES // 2, HABITS)
    print(f"{len(perfect)} perfect and {len(spoilt)} spoilt conversations")
    sample = perfect[:: max(1, len(perfect) // TOKENIZER_SAMPLE)]
    model, tokenizer, trainer = begin(out / "tokenizer.json", sample, options.seed)
    initialise(model, str(out / "perfect.pt") if options.resume else options.initial)
    if not options.resume:
        trainer.run(learn, options.tokens * 1e6, options.minutes, perfect)
        torch.save(model.state_dict(), out / "perfect.pt")
        save_gguf(model, tokenizer, out / "perfect.gguf")
    trainer.run(spoil, options.spoil_tokens * 1e6, options.minutes, perfect, spoilt)
    save_hugging_face(model, tokenizer, out / "hf")
    save_gguf(model, tokenizer, out / "tiny.gguf")
    print(f"wrote {out / 'tiny.gguf'}, {(out / 'tiny.gguf').stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
