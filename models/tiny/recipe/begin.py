"""What both bases begin with: a tokenizer, a model of its vocabulary, a trainer."""

from pathlib import Path

import torch
from tokenizers import Tokenizer

from .initialise import initialise_standard, initialise_structured
from .model import Shape, TinyModel
from .tokenizer import drawn_tokens, name_tokens, train_tokenizer
from .traces import Renamer, Traces, make_symbols, world_names
from .train import RENAMED_NAMES, DrawnEmbeddings, Trainer


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


def initialise(model: TinyModel, initial: str) -> None:
    """`initial`: structured, standard, or a file of weights."""
    known = {"structured": initialise_structured, "standard": initialise_standard}
    if initial in known:
        known[initial](model)
    else:
        model.load_state_dict(torch.load(initial))
