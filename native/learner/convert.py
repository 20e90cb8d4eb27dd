"""Runs llama.cpp's converter: `python -m learner.convert SCRIPT ARGUMENT...`, with the script's path and arguments.

The converter recognises the pre-tokenizer of a byte-level BPE vocabulary by the ids that a sample text gets, so it
knows published vocabularies alone. A vocabulary of a model's own, or a published one with other added tokens, is
recognised by the definition of its pre-tokenizer.
"""

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .lifeline import die_with_parent
from .pre_tokenizer import pre_tokenizer_of


def recognising(own: Callable[[Any, Any], str]) -> Callable[[Any, Any], str]:
    """The converter's method, extended: it raises NotImplementedError for an unknown pre-tokenizer."""

    def recognise(converter: Any, tokenizer: Any) -> str:
        try:
            return own(converter, tokenizer)
        except NotImplementedError:
            backend = getattr(tokenizer, "backend_tokenizer", None)
            name = None if backend is None else pre_tokenizer_of(json.loads(backend.to_str()))
            if name is None:
                raise
            return name

    return recognise


def main() -> None:
    die_with_parent()
    script = Path(sys.argv[1])
    sys.argv = sys.argv[1:]
    # As if the script had been started itself: its own modules come first.
    sys.path.insert(0, str(script.parent))
    from conversion.base import TextModel

    TextModel.get_vocab_base_pre = recognising(TextModel.get_vocab_base_pre)
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
