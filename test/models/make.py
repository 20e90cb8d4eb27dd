"""Makes the models that tests and benchmarks run on. Nothing is downloaded.

  tiny   eleven families of 1 MB each (qwen2-tiny, qwen3-tiny, llama-tiny, mistral-tiny, smollm3-tiny, granite-tiny,
         olmo2-tiny, gemma3-tiny, phi3-tiny, lfm2-tiny, yarn-tiny), a few seconds. For each:
         NAME/                   Hugging Face folder with a small real tokenizer and the family's chat template
         NAME-f32.gguf           the same weights, by llama.cpp's converter; NAME-f16.gguf holds them as exactly,
                                 NAME-q8_0.gguf rounded
         NAME-adapter-1/, -2/    PEFT adapters of rank 8 and 16 on all linear layers
         NAME-adapter-1.gguf     the same adapters, by llama.cpp's converter
  published  qwen2.5-small/, qwen3-small/ (each with an -untied/ one), llama3.2-small/, llama2-small/, mistral-small/,
         gemma3-small/:
         Hugging Face folders of two narrow layers, random weights in bf16, and the whole real vocabulary and chat template, as the
         makers of these models publish them (200 MB)
  0.5b   qwen2-0.5b-shape-f16.gguf: random weights in the shape of Qwen2-0.5B with the real Qwen2 vocabulary (1 GB),
         and random adapters qwen2-0.5b-shape-adapter-r8.gguf, -r16, -r32. For speed and memory,
         not for text.
  wide   tiny-wide-f16.gguf: models/tiny with feed-forward layers of 100 million weights more, which add nothing: it
         plays the email task as the tiny model does, at the cost of a larger one (200 MB). For speed.

  card   card-0.5b-f16.gguf, card-1.5b-…, card-7b-…, each in bf16 too, with card-0.5b-adapter-r8.gguf and its like: shape,
         vocabulary and types of Qwen2.5's, and weights that are a hole in the file. For a card that computes nothing.

`yarn test-models [tiny|published|0.5b|wide|card ...]` sets up Python and calls this; with Python set up, it can be called
alone:

    $(node scripts/python.mjs) test/models/make.py --llama build/llama.cpp --out build/models tiny
"""

from __future__ import annotations

import argparse
import logging
import shutil
from pathlib import Path

import card
import published
import reference
import shape
import tiny
import wide


def make_tiny(source: Path, out: Path) -> None:
    for family, pre in tiny.PRE.items():
        name = f"{family}-tiny"
        folder = out / name
        tiny.make(family, source, folder)
        with reference.converters(source, pre):
            for kind in ("f32", "f16", "q8_0"):
                reference.convert_model(source, folder, out / f"{name}-{kind}.gguf", kind)
            for number in (1, 2):
                adapter = out / f"{name}-adapter-{number}"
                reference.convert_adapter(source, folder, adapter, adapter.with_name(f"{adapter.name}.gguf"))


MAKERS = {"tiny": make_tiny, "published": published.make, "0.5b": shape.make, "wide": wide.make, "card": card.make}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama", type=Path, required=True, help="llama.cpp's source (scripts/llama-source.mjs)")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("models", nargs="+", choices=list(MAKERS))
    arguments = parser.parse_args()
    logging.disable(logging.INFO)
    for name in arguments.models:
        # Made aside, so that a broken run leaves nothing that looks whole.
        aside = arguments.out / f".{name}"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        MAKERS[name](arguments.llama, aside)
        for path in sorted(aside.iterdir()):
            target = arguments.out / path.name
            if target.is_dir():
                shutil.rmtree(target)
            path.replace(target)
        aside.rmdir()


if __name__ == "__main__":
    main()
