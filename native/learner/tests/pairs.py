"""A backend of the learner beside the independent implementation of an update, with the same weights."""

from collections.abc import Callable
from pathlib import Path

import torch
from batches import open_settings
from learner.backend import PeftBackend
from reference import Reference

from models import make_model, write_gguf


def random_pair(folder: Path, report: Callable[..., None]) -> tuple[PeftBackend, Reference]:
    """Both on a tiny Qwen2, which is written to `folder`, with a random adapter."""
    settings = open_settings(write_gguf(make_model("qwen2"), folder / "model.gguf"))
    torch.manual_seed(0)
    backend = PeftBackend(settings, report)
    with torch.no_grad():
        for parameter in backend.trainable():
            parameter.normal_(std=0.1)
    start = {name: value.detach() for name, value in backend.model.named_parameters() if value.requires_grad}
    return backend, Reference(make_model("qwen2"), settings.lora, start)
