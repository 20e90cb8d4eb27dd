"""llama.cpp's own converters, run in this process: they import PyTorch, which takes longer than the work itself."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock


@contextmanager
def converters(source: Path, pre: str) -> Iterator[None]:
    """Lets a script of llama.cpp's root be run. `pre` names the pre-tokenizer, which the converter otherwise tells by
    the hash of a known vocabulary."""
    paths = [str(source), str(source / "gguf-py")]
    sys.path[:0] = paths
    # The copy of the gguf package that belongs to the converters; ours may be another version.
    ours = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "gguf"}
    for name in ours:
        del sys.modules[name]
    try:
        import conversion.base

        with mock.patch.object(conversion.base.TextModel, "get_vocab_base_pre", lambda *_: pre):
            yield
    finally:
        for path in paths:
            sys.path.remove(path)
        for name in [name for name in sys.modules if name.split(".")[0] in ("gguf", "conversion")]:
            del sys.modules[name]
        sys.modules.update(ours)


def _run(script: Path, *arguments: str | Path) -> None:
    with mock.patch.object(sys, "argv", [str(script), *map(str, arguments)]):
        runpy.run_path(str(script), run_name="__main__")


def convert_model(source: Path, folder: Path, target: Path, kind: str) -> None:
    """`kind` is llama.cpp's name of the weight type: "f32", "f16", "q8_0"."""
    _run(source / "convert_hf_to_gguf.py", folder, "--outfile", target, "--outtype", kind)


def convert_adapter(source: Path, base: Path, folder: Path, target: Path) -> None:
    _run(source / "convert_lora_to_gguf.py", folder, "--base", base, "--outfile", target, "--outtype", "f32")
