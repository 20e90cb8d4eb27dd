"""`python -m learner.dequantise SOURCE TARGET KIND`: a copy of a GGUF file with its weights as f16, bf16 or f32.

Engine and learner then compute with the same numbers: llama.cpp rounds activations to 8 bits beside quantised weights,
and not beside these. One tensor is in memory at a time. src/machine/models/ moves the complete file to its place.
"""

import sys
from pathlib import Path

import gguf
import torch

from .errors import Refused
from .gguf_tensor import dequantised
from .gguf_write import is_copied, stored_type, write_gguf
from .lifeline import die_with_parent


def dequantise(source: str, target: Path, kind: str) -> None:
    """Raises Refused when the source cannot be read, has weights that the gguf package cannot dequantise or that are
    not finite, and when a number is too large for the type."""
    try:
        reader = gguf.GGUFReader(source)
    except (OSError, ValueError) as error:
        raise Refused(f"it cannot be read as GGUF: {error}") from error
    total = len(reader.tensors)
    done = 0

    def values(tensor: gguf.ReaderTensor) -> torch.Tensor:
        nonlocal done
        done += 1
        # src/machine/models/ shows it.
        print(f"Writing: {100 * done // total}%", flush=True)
        try:
            numbers = dequantised(tensor)
        except NotImplementedError:
            raise Refused(
                f"{tensor.name} has {tensor.tensor_type.name.lower()} weights, which cannot be dequantised"
            ) from None
        if not torch.isfinite(numbers).all():
            raise Refused(f"{tensor.name} has weights that are not finite: the file is damaged")
        return numbers

    write_gguf(target, reader, values, kind)
    _check(reader, gguf.GGUFReader(target), kind)


def _check(reader: gguf.GGUFReader, written: gguf.GGUFReader, kind: str) -> None:
    """Raises Refused when the written file does not have all metadata and tensors of the source."""
    expected = [(tensor.name, [*tensor.shape], stored_type(tensor, kind)) for tensor in reader.tensors]
    found = [(tensor.name, [*tensor.shape], tensor.tensor_type) for tensor in written.tensors]
    missing = {name for name in reader.fields if is_copied(name)} - set(written.fields)
    if found != expected or missing:
        raise Refused("the copy that was written lacks a part of it")


def main() -> None:
    die_with_parent()
    source, target, kind = sys.argv[1:]
    try:
        dequantise(source, Path(target), kind)
    except Refused as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"{type(error).__name__}: {error}".splitlines()[0])


if __name__ == "__main__":
    main()
