"""Unsloth behind `Backend`: its loading, LoRA layers, kernels and gradient checkpointing.

Loss, packing, importance weights and checkpoints are hone's. On a CPU Unsloth runs the model of transformers, so
rows share prefixes as with PEFT. On a GPU its own forward pass bypasses transformers' attention functions and drops
masks in training: rows then hold whole trajectories, separated by Unsloth's `packed_seq_lengths`. Before the
first row on a device, packing_check.py compares packed and unpacked computation, on a GPU for each of the kernels among
which Unsloth chooses by the rollouts' lengths (its utils/attention_dispatch.py).
"""

from typing import Any

import torch

from .attention import Layout
from .backend import TYPES, PeftBackend, adapted_layers, check_targets, choose_precision, for_output_layer
from .card import Rows
from .choice import import_unsloth
from .device import choose_device, has_bf16
from .errors import Refused, is_out_of_memory
from .gguf_model import GgufModel
from .memory import forget
from .packing import Pack
from .packing_check import check_packing
from .protocol import Progress
from .request import OpenRequest
from .unsloth_model import load_base_with_unsloth

EQUAL, LONG = (24, 24, 24), (1130, 1040, 1080)
"""Lengths of rollouts to check on a GPU too. Unsloth computes neighbours of one length as a batch, other rollouts in
one call; on some GPUs in one call each where their mean is above 1,024 tokens. With LONG its checkpointing moves
layers' inputs."""
OFFLOADING = "unsloth"
"""Its own gradient checkpointing, for GPUs: layers' inputs of more than 2 MiB are moved to main memory, where its
buffers stay until the process ends. It is installed when the adapter is made; `for_training` only turns it on and off.
*Not run on CUDA.*"""


class UnslothBackend(PeftBackend):
    """An adapter of Unsloth's around a base in its computing precision. The model stays on its device: `away` is false
    for any lifetime."""

    name = "unsloth"
    away = False

    def __init__(self, settings: OpenRequest, progress: Progress) -> None:
        self._begin(choose_device(settings.device))
        self._unsloth = import_unsloth(self.device.type).FastLanguageModel
        base, lora = settings.base, settings.lora
        check_targets(lora.targets)

        def dtype_of(file: GgufModel) -> torch.dtype:
            self.precision = choose_precision(settings.precision, self.device, file.weights)
            return TYPES[self.precision]

        model, self.base = load_base_with_unsloth(base.gguf, base.hf, progress, self.device, dtype_of)
        model.requires_grad_(False)
        self.model: Any = self._unsloth.get_peft_model(
            model,
            r=lora.rank,
            lora_alpha=lora.alpha,
            target_modules=adapted_layers(self.base.config, lora.targets),
            lora_dropout=0.0,
            bias="none",
            use_gradient_checkpointing=OFFLOADING if self._fast else False,
            # NumPy's seeds, which it sets too, have 32 bits.
            random_state=settings.seed % 2**32,
        )
        for parameter in self.trainable():
            parameter.data = parameter.data.float()
        self.model.peft_config["default"].base_model_name_or_path = None
        self._causal = self.model.base_model.model
        self.checkpointing(False)

    def _begin(self, device: torch.device) -> None:
        self.device = device
        self._fast = device.type == "cuda"
        self.shares = not self._fast
        self.rows = Rows()
        self._checked: set[tuple[torch.device, bool]] = set()
        self._notes: list[str] = []

    def hidden(self, pack: Pack) -> torch.Tensor:
        self.check()
        return self.computed(pack)

    def check(self) -> None:
        """Compares packed and unpacked rows, once on each device with activations kept and once with them computed
        twice. Raises Refused where they differ."""
        way = self.placed(), self._checkpoints
        if way in self._checked:
            return
        states = check_packing(self)
        if self._fast:
            check_packing(self, EQUAL)
            self._check_long()
        self.rows._try_output_layer(self, states)
        self._checked.add(way)

    def _check_long(self) -> None:
        try:
            check_packing(self, LONG)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            # An update may still fit: its rows may be shorter.
            forget(error)
            lengths = ", ".join(map(str, LONG))
            self._notes.append(f"no memory to check a packed row of rollouts of {lengths} tokens on {self.placed()}")

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
        return for_output_layer(self._causal, output.last_hidden_state[0, pack.predicting.to(self.device)])

    def notes(self) -> list[str]:
        said, self._notes = self._notes, []
        return said + super().notes()

    def move(self, device: torch.device) -> None:
        if device.type != self.device.type:
            raise Refused("Unsloth's model stays on the device that it was loaded on; use --learner-lifetime step")

    def compute_in(self, precision: str, for_good: bool = False) -> None:
        # Embeddings and norms have the type, too: an overflow there would not disappear under another autocast.
        if precision != self.precision:
            other = "" if self._fast and not has_bf16() else f"--precision {precision} or "
            raise Refused(
                f"a loss or gradient is not finite in {self.precision}, in which Unsloth holds the whole model; "
                f"go on with {other}--learner peft"
            )

    def checkpointing(self, on: bool) -> None:
        self._checkpoints = on
        kind = OFFLOADING if self._fast else True
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
