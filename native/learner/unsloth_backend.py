"""Unsloth behind `Backend`: its loading, LoRA layers, kernels and gradient checkpointing.

Loss, packing, importance weights and checkpoints are hone's. On a CPU Unsloth runs the model of transformers, so
rows share prefixes as with PEFT. On a GPU its own forward pass bypasses transformers' attention functions and drops
masks in training: rows then hold whole trajectories, separated by Unsloth's `packed_seq_lengths`. Before the
first row on a device, packing_check.py compares packed and unpacked computation.
"""

from typing import Any

import torch

from .attention import Layout
from .backend import TYPES, PeftBackend, check_targets, choose_precision
from .choice import import_unsloth
from .device import choose_device
from .errors import Refused
from .gguf_model import GgufModel
from .packing import Pack
from .packing_check import check_packing
from .protocol import Progress
from .unsloth_model import load_base_with_unsloth


class UnslothBackend(PeftBackend):
    """An adapter of Unsloth's around a base in its computing precision. The model stays on its device: `away` is false
    for any lifetime."""

    name = "unsloth"
    away = False

    def __init__(self, settings: dict[str, Any], progress: Progress) -> None:
        self.device = choose_device(settings["device"])
        self._unsloth = import_unsloth(self.device.type).FastLanguageModel
        self._fast = self.device.type == "cuda"
        self.shares = not self._fast
        self._checked: set[torch.device] = set()
        base, lora = settings["base"], settings["lora"]
        check_targets(lora["targets"])

        def dtype_of(file: GgufModel) -> torch.dtype:
            self.precision = choose_precision(settings["precision"], self.device, file.weights)
            return TYPES[self.precision]

        model, self.base = load_base_with_unsloth(base["gguf"], base.get("hf"), progress, self.device, dtype_of)
        model.requires_grad_(False)
        self.model: Any = self._unsloth.get_peft_model(
            model,
            r=lora["rank"],
            lora_alpha=lora["alpha"],
            target_modules=list(lora["targets"]),
            lora_dropout=0.0,
            bias="none",
            use_gradient_checkpointing=False,
            random_state=settings["seed"],
        )
        for parameter in self.trainable():
            parameter.data = parameter.data.float()
        self.model.peft_config["default"].base_model_name_or_path = None
        self._causal = self.model.base_model.model
        self.checkpointing(False)

    def hidden(self, pack: Pack) -> torch.Tensor:
        device = self.placed()
        if device not in self._checked:
            check_packing(self)
            self._checked.add(device)
        return self.computed(pack)

    def computed(self, pack: Pack) -> torch.Tensor:
        """As `hidden`, without the check."""
        about: dict[str, Any] = {"packed_seq_lengths": whole_lengths(pack)} if self._fast else {"layout": Layout(pack)}
        with torch.autocast(self.device.type, TYPES[self.precision], enabled=self.precision != "f32"):
            output = self._causal.model(
                input_ids=pack.ids[None].to(self.device),
                position_ids=pack.positions[None].to(self.device),
                use_cache=False,
                **about,
            )
        return output.last_hidden_state[0, pack.predicting.to(self.device)]

    def move(self, device: torch.device) -> None:
        if device.type != self.device.type:
            raise Refused("Unsloth's model stays on the device that it was loaded on; use --learner-lifetime step")

    def compute_in(self, precision: str, for_good: bool = False) -> None:
        # Embeddings and norms have the type, too: an overflow there would not disappear under another autocast.
        if precision != self.precision:
            raise Refused(
                f"a loss or gradient is not finite in {self.precision}, in which Unsloth holds the whole model; "
                f"go on with --precision {precision} or --learner peft"
            )

    def checkpointing(self, on: bool) -> None:
        # On a GPU Unsloth's own kind, which keeps the layers' inputs in main memory.
        kind = "unsloth" if self._fast else True
        self._unsloth.for_training(self.model, use_gradient_checkpointing=kind if on else False)


def whole_lengths(pack: Pack) -> torch.Tensor:
    """Lengths of the trajectories of a row without shared prefixes: each starts at position 0 and continues without a
    gap."""
    starts = (pack.positions == 0).nonzero().flatten()
    ends = torch.cat((starts[1:], torch.tensor([len(pack.positions)])))
    lengths = ends - starts
    expected = torch.cat([torch.arange(int(length)) for length in lengths])
    if not torch.equal(expected, pack.positions):
        raise ValueError("a row that shares a prefix was given to a backend that cannot share")
    return lengths.to(torch.int32)
