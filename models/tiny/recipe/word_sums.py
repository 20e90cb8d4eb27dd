"""Makes the base of examples/word-sums.ts from nothing: a model that has seen how a calculator is used, by a player who
draws the meaning of each verb at random.

`yarn tiny-model --base word-sums`. The conversations are played by hone itself (word-sums.mjs) and kept in the output
folder, where they are found again.
"""

import argparse
import subprocess
from pathlib import Path

import torch

from .begin import prepare_torch, tokenizer_of
from .export import save_gguf, save_hugging_face
from .initialise import initialise_structured
from .model import Shape, TinyModel
from .tokenizer import RENAMED_POOLS
from .traces import RECIPE, Renamer, read_traces
from .train import DrawnEmbeddings, Step, Trainer

SCENARIOS = 20_000
OPERATORS = ("add", "subtract", "multiply", "divide")
# A verb is the same token in the question and at the start of a turn.
VERBS = ("gets", "finds", "buys", "loses", "eats", "sells", "wants", "needs", "orders", "splits", "shares", "deals")


def learn_calls(done: float) -> Step:
    """`done` of the way (0 to 1): the rate falls over the second half."""
    return Step(rate=1 if done < 0.5 else max(0.02, 2 * (1 - done)), given=0.1 if done < 0.3 else 0.02)


def names() -> dict[str, list[str]]:
    return {**{pool: [] for pool in (*RENAMED_POOLS, "reserved")}, "places": list(VERBS)}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="yarn tiny-model --base word-sums", description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build/word-sums"), help="folder for all that is made")
    parser.add_argument("--tokens", type=float, default=2, help="millions of tokens")
    parser.add_argument("--minutes", type=float, default=90, help="minutes that training may take at most")
    parser.add_argument("--threads", type=int, default=1, help="more than the free cores makes training slower")
    parser.add_argument("--seed", type=int, default=0, help="of weights and batches; conversations have their own")
    return parser.parse_args()


def make_conversations(file: Path, scenarios: int) -> None:
    """Of the train split, which is four fifths of them; does nothing when the file is there."""
    if not file.exists():
        script = RECIPE / "word-sums.mjs"
        subprocess.run(["node", script, "--out", file, "--scenarios", str(scenarios)], check=True)


def main() -> None:
    options = arguments()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    prepare_torch(options.threads, options.seed)
    conversations = out.resolve() / "blind.jsonl"
    make_conversations(conversations, SCENARIOS)
    traces = read_traces(conversations)
    tokenizer = tokenizer_of(out / "tokenizer.json", traces, names(), [])
    model = TinyModel(
        Shape(tokenizer.get_vocab_size(), width=128, layers=3, heads=4, head_width=32, feed_forward=256, context=512)
    )
    initialise_structured(model)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{parameters / 1e6:.2f} M parameters, {tokenizer.get_vocab_size()} tokens in the vocabulary", flush=True)
    none_drawn = DrawnEmbeddings(model.model.embed_tokens.weight, [], [])
    trainer = Trainer(model, tokenizer, Renamer(names(), [], 0), none_drawn, options.seed, print)
    trainer.run(learn_calls, options.tokens * 1e6, options.minutes, traces)
    torch.save(model.state_dict(), out / "learnt.pt")
    save_hugging_face(model, tokenizer, out / "hf")
    save_gguf(model, tokenizer, out / "word-sums.gguf", "hone word sums")
    print(f"wrote {out / 'word-sums.gguf'}, {(out / 'word-sums.gguf').stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
