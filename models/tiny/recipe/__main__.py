"""Makes the tiny model from nothing: traces, tokenizer, initial weights, training, Hugging Face folder, GGUF.

    python models/tiny/recipe --tokens 3 --out build/tiny

Needs `yarn build` before (the traces are played by hone itself). Traces are kept in the output folder and used again.
The model after the first phase is saved as perfect.gguf, the finished one as tiny.gguf.
"""

import argparse
import json
import random
from pathlib import Path

import torch
from export import save_gguf, save_hugging_face
from initialise import initialise_standard, initialise_structured
from model import Shape, TinyModel
from tokenizer import train_tokenizer
from tokenizers import Tokenizer
from traces import Renamer, make_traces, read_traces, world_names
from train import RENAMED_NAMES, Trainer, learn, spoil

# Seeds of the worlds that training may see; build-db's default is 1. Message ids grow longer past this many mailboxes.
FIRST_WORLD = 9_001
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
    "answers_unread": 0.15,
    "gives_up_early": 0.25,
    "cites_too_much": 0.15,
    "cites_nothing": 0.15,
}
TOKENIZER_SAMPLE = 4_000


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python models/tiny/recipe", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build/tiny"), help="folder for all that is made")
    parser.add_argument("--tokens", type=float, default=12, help="millions of tokens of the first phase")
    parser.add_argument("--spoil-tokens", type=float, default=0.8, help="millions of tokens of the second phase")
    parser.add_argument("--minutes", type=float, default=90, help="minutes that the first phase may take at most")
    parser.add_argument("--worlds", type=int, default=2, help="worlds of perfect traces, 10,400 conversations each")
    parser.add_argument("--threads", type=int, default=1, help="more than free cores makes training slower")
    parser.add_argument("--seed", type=int, default=0, help="of weights and batches; traces have their own")
    parser.add_argument("--initial", choices=("structured", "standard"), default="structured", help="initial weights")
    parser.add_argument("--resume", action="store_true", help="start at the second phase, from perfect.pt in --out")
    return parser.parse_args()


def make_tokenizer(file: Path, traces: list, names: dict[str, list[str]]) -> Tokenizer:
    if not file.exists():
        sample = traces[:: max(1, len(traces) // TOKENIZER_SAMPLE)]
        train_tokenizer(["".join(text for text, _ in pieces) for _, pieces in sample], names).save(str(file))
    return Tokenizer.from_file(str(file))


def main() -> None:
    options = arguments()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    random.seed(options.seed)

    perfect_files = [out / "traces" / f"perfect-{index}.jsonl" for index in range(options.worlds)]
    spoilt_file = out / "traces" / f"spoilt-{json_digest(HABITS)}.jsonl"
    for index, file in enumerate(perfect_files):
        make_traces(file, seed=FIRST_WORLD + index, mailboxes=MAILBOXES, mistakes=MENDED)
    make_traces(spoilt_file, seed=FIRST_WORLD + 100, mailboxes=MAILBOXES // 2, mistakes=HABITS)
    perfect, spoilt = list(read_traces(perfect_files)), list(read_traces([spoilt_file]))
    names = world_names()
    tokenizer = make_tokenizer(out / "tokenizer.json", perfect, names)
    print(f"{len(perfect)} perfect and {len(spoilt)} spoilt conversations, {tokenizer.get_vocab_size()} tokens")

    model = TinyModel(Shape(tokenizer.get_vocab_size()))
    print(f"{sum(parameter.numel() for parameter in model.parameters()) / 1e6:.2f} M parameters")
    trainer = Trainer(
        model, tokenizer, Renamer(names, RENAMED_NAMES), options.seed, lambda line: print(line, flush=True)
    )
    if options.resume:
        model.load_state_dict(torch.load(out / "perfect.pt"))
    else:
        (initialise_structured if options.initial == "structured" else initialise_standard)(model)
        trainer.run(learn, options.tokens * 1e6, options.minutes, perfect)
        torch.save(model.state_dict(), out / "perfect.pt")
        save_gguf(model, tokenizer, out / "perfect.gguf")
    trainer.run(spoil, options.spoil_tokens * 1e6, options.minutes / 8, perfect, spoilt)
    save_hugging_face(model, tokenizer, out / "hf")
    save_gguf(model, tokenizer, out / "tiny.gguf")
    print(f"wrote {out / 'tiny.gguf'}, {(out / 'tiny.gguf').stat().st_size / 1e6:.1f} MB")


def json_digest(value: object) -> str:
    """Short name of a setting, so that traces made under another one are not taken for these."""
    import hashlib

    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


if __name__ == "__main__":
    main()
