"""The weights of a model with an adapter merged into them: W + scale · B · A, computed in float32.

Each weight is rounded once, to the type of the written file. One tensor is in memory at a time.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file

from .errors import Refused
from .gguf_adapter import PEFT_TENSOR, Scaling
from .gguf_model import GgufModel, read_gguf


class Merged:
    """A model file with a PEFT adapter; without one the model's own weights."""

    def __init__(self, model: str, adapter: Path | None) -> None:
        self.base: GgufModel = read_gguf(model)
        self._pairs: dict[str, dict[str, torch.Tensor]] = {}
        if adapter is None:
            return
        config = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
        self._scaling = Scaling.of(config)
        state = load_file(adapter / "adapter_model.safetensors")
        for name, weight in state.items():
            match = PEFT_TENSOR.fullmatch(name)
            if not match or f"{match[1]}.weight" not in self.base.tensors:
                raise Refused(f"the adapter has {name}, which {model} has no place for")
            self._pairs.setdefault(match[1], {})[match[4]] = weight.to(torch.float32)

    def tensor(self, name: str) -> torch.Tensor:
        """The merged tensor with this Hugging Face name, in f32."""
        values = self.base.tensor(name)
        layer = name.removesuffix(".weight")
        pair = self._pairs.get(layer)
        if pair is None or not name.endswith(".weight"):
            return values
        rank = pair["A"].shape[0]
        scale = self._scaling.alpha / rank * self._scaling.correction(layer, rank)
        return values.add_(pair["B"] @ pair["A"], alpha=scale)
