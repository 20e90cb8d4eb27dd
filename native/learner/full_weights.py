"""Writes a model whose weights were all trained: as a Hugging Face folder, and as a GGUF file beside it."""

from pathlib import Path

import gguf
import torch

from .gguf_model import GgufModel, file_order
from .gguf_write import write_gguf


def write_model(folder: Path, model: torch.nn.Module, base: GgufModel) -> None:
    """Writes `model/` and `model.gguf` (f16) into `folder`."""
    model.save_pretrained(folder / "model", safe_serialization=True)
    write_gguf(folder / "model.gguf", gguf.GGUFReader(base.path), file_order(base, model.get_parameter), "f16")
