"""The interface of a model for updates, and its implementation with PyTorch and PEFT.

A backend returns hidden states at predicting positions and the output layer's weight; rewards, losses and files are
not its concern. unsloth_backend.py has Unsloth's; choice.py chooses. In this order:

1. When it is made: the device, the file's weights (model.py), the precision, the adapter; the weights to the device,
   unless they are `away` between updates.
2. For each row `hidden` lays the row out in the way that card.py has chosen for the device and computes it; where the
   way fails, in the next one.
3. The loss, computed from the hidden states elsewhere, returns as their gradient to `backward`. Where the way
   fails there it raises Repeat: all rows of the update are computed again, in the next one.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import torch
from peft import LoraConfig, PeftModel, get_peft_model

from . import convolution, cpu_bf16
from .adapted_linear import round_once
from .architectures import ARCHITECTURES, LAYERS, MODEL_TYPES
from .attention import Layout, idle, windows_of
from .card import Rows, rows_for
from .device import choose_device, has_bf16, on_device
from .errors import Refused
from .gguf_model import GgufModel
from .model import Place, load_base
from .packing import Pack
from .protocol import Progress
from .quantised import QuantisedLinear, weights_of
from .request import Lora, OpenRequest

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
"""For each precision the type of products and of frozen matrices."""
PRODUCTS = frozenset(module.rsplit(".", 1)[-1] for module in LAYERS)
"""Names of the layers' linear modules."""
LINEAR_LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def for_output_layer(causal: Any, states: torch.Tensor) -> torch.Tensor:
    """Last hidden states as the output layer's weight gives logits of them: Granite divides its logits."""
    scaling = getattr(causal.config, "logits_scaling", 1.0)
    return states if scaling == 1 else states / scaling


class Repeat(Exception):
    """A backward pass failed and may have added a part of its gradients. Rows are computed in another way from now on:
    clear the gradients, and compute all rows of the update again."""


class Backend(Protocol):
    name: str
    device: torch.device
    precision: str
    base: GgufModel
    shares: bool
    """Whether one prefix in a row may serve several trajectories."""
    away: bool
    """Whether the model is on the device during updates only."""
    at_work: Callable[[], None]
    """Called whenever a layer has attended to a row in blocks, forward or backward: a CPU may take long for the row."""

    def hidden(self, pack: Pack) -> torch.Tensor:
        """Last hidden states at the positions that predict sampled tokens, [P, width]; with a graph if gradients are
        on."""
        ...

    def backward(self, hidden: torch.Tensor, gradient: torch.Tensor) -> None:
        """From hidden states and the loss's gradient in them, [P, width]: adds to the gradients of the parameters.

        Raises Repeat.
        """
        ...

    def output_weight(self) -> torch.Tensor:
        """Weight of the output layer, [vocabulary, width]."""
        ...

    @property
    def vocabulary(self) -> int:
        """Its size: the rows of the output layer."""
        ...

    def padding(self, pack: Pack) -> int:
        """Number of padding positions of the row."""
        ...

    def notes(self) -> list[str]:
        """Notes for the user, each once."""
        ...

    def trainable(self) -> list[torch.nn.Parameter]: ...

    def move(self, device: torch.device) -> None:
        """Moves the model there. Parameters stay the same objects."""
        ...

    def placed(self) -> torch.device:
        """Current device of the parameters."""
        ...

    def base_policy(self) -> AbstractContextManager[None]:
        """Context in which the model is the one before any training."""
        ...

    def checkpointing(self, on: bool) -> None:
        """Whether activations are recomputed in the backward pass to keep fewer."""
        ...

    def compute_in(self, precision: str, for_good: bool = False) -> None:
        """Sets the precision. `for_good`: the weights may be rounded to it, too."""
        ...


class PeftBackend:
    """LoRA adapters of PEFT around a Hugging Face model; with `lora` None all weights are trained."""

    name = "peft"
    shares = True
    rows = Rows()
    at_work: Callable[[], None] = staticmethod(idle)
    _note: str | None = None
    """Of how precision was chosen, until it is told."""

    def __init__(self, settings: OpenRequest, progress: Progress) -> None:
        self.device = choose_device(settings.device)
        self.rows = rows_for(self.device)
        self.away = settings.lifetime != "run"
        _check_lifetime(settings.lifetime, self.device)
        base, lora = settings.base, settings.lora

        def opened(file: GgufModel) -> None:
            self.precision = choose_precision(settings.precision, self.device, file.weights)

        frozen = lora is not None
        model, self.base = load_base(base.gguf, base.hf, progress, self._placed(frozen), opened, frozen)
        if lora is None:
            if self.base.rope_factors is not None:
                raise Refused("all weights of a model with scaled RoPE cannot be trained here; use LoRA")
            self.model: Any = model.requires_grad_(True)
            self._causal = model
        else:
            model.requires_grad_(False)
            if self.precision != "f32":
                _linears_to(model, TYPES[self.precision])
            self.model = _with_adapter(model, lora)
            self._causal = self.model.base_model.model
        if not self.away:
            self.move(self.device)
        # Layers checkpoint only in training mode, which has no other effect: there is no dropout (model.py).
        self.model.train()
        if self.device.type == "cpu" and settings.precision == "auto" and lora is not None:
            self._note = cpu_bf16.settle(self)

    def _placed(self, frozen: bool) -> Place:
        """Device of the weights while they are read, so that the host never holds all of them in f32 for a GPU."""
        device = torch.device("cpu") if self.away else self.device

        def place(name: str, values: torch.Tensor) -> torch.Tensor:
            if not values.is_floating_point():
                return values.to(device)
            half = frozen and name.split(".")[-2] in PRODUCTS
            return values.to(device, TYPES[self.precision] if half else torch.float32)

        return place

    def hidden(self, pack: Pack) -> torch.Tensor:
        while True:
            self.rows.settle(self)
            try:
                return self.computed(pack)
            except Exception as error:
                if not self.rows.falls_back(self, error):
                    raise

    def backward(self, hidden: torch.Tensor, gradient: torch.Tensor) -> None:
        try:
            hidden.backward(gradient)
            return
        except Exception as error:
            if not self.rows.falls_back(self, error):
                raise
        raise Repeat

    def computed(self, pack: Pack) -> torch.Tensor:
        """As `hidden`, in the way currently chosen."""
        row, layout = self.rows.lay_out(pack, self.device, windows_of(self._causal.model.layers))
        if isinstance(layout, Layout):
            layout.at_work = self.at_work
        fused = self.rows.fused
        # A precision tried for one update converts weights in each product, which autocast does.
        if fused is not None and fused.dtype == TYPES[self.precision]:
            return for_output_layer(self._causal, fused.hidden(row, layout))
        with torch.autocast(self.device.type, TYPES[self.precision], enabled=self.precision != "f32"):
            output = self._causal.model(
                input_ids=on_device(row.ids[None], self.device),
                position_ids=on_device(row.positions[None], self.device),
                use_cache=False,
                layout=layout,
                **convolution.of_row(self._causal.config, row, self.device),
            )
        return for_output_layer(self._causal, output.last_hidden_state[0, on_device(row.predicting, self.device)])

    def padding(self, pack: Pack) -> int:
        return self.rows.padding(pack)

    def notes(self) -> list[str]:
        said, self._note = self._note, None
        return [*([] if said is None else [said]), *self.rows.notes()]

    def output_weight(self) -> torch.Tensor:
        return self.rows.output_weight(weights_of(self._causal.lm_head), TYPES[self.precision])

    @property
    def vocabulary(self) -> int:
        return len(self._causal.lm_head.weight)

    def trainable(self) -> list[torch.nn.Parameter]:
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    def move(self, device: torch.device) -> None:
        self.model.to(device)
        if self.rows.fused is not None:
            self.rows.fused.moved()

    def placed(self) -> torch.device:
        return next(self.model.parameters()).device

    @contextmanager
    def base_policy(self) -> Iterator[None]:
        if not isinstance(self.model, PeftModel):
            raise Refused("KL to the base model needs LoRA: with all weights trained the base is not kept; use --kl 0")
        # As PeftModel.disable_adapter, which first looks whether some of the layers' adapters are off already.
        self.model.base_model.disable_adapter_layers()
        try:
            yield
        finally:
            self.model.base_model.enable_adapter_layers()

    def checkpointing(self, on: bool) -> None:
        # Both go through all modules.
        if self._causal.model.layers[0].gradient_checkpointing == on:
            return
        if on:
            self._causal.gradient_checkpointing_enable({"use_reentrant": False})
        else:
            self._causal.gradient_checkpointing_disable()

    def compute_in(self, precision: str, for_good: bool = False) -> None:
        self.precision = precision
        # Before that autocast rounds the weights for each product.
        if for_good and isinstance(self.model, PeftModel):
            if self.rows.fused is not None:
                # The joint matrices would stay, beside as many converted weights.
                self.rows.fused.moved()
            _linears_to(self.model, TYPES[precision])


def choose_precision(wanted: str, device: torch.device, weights: str) -> str:
    """On a GPU f16 for f16 weights, which bf16 would round by three bits more than the engine does: policy and learner
    would drift apart; and f16 where bf16 is no type of the GPU's products. f32 on a CPU, until cpu_bf16.py has tried
    bf16."""
    if wanted != "auto":
        return wanted
    if device.type == "cpu":
        return "f32"
    return "f16" if weights == "f16" or not has_bf16() else "bf16"


def _check_lifetime(lifetime: str, device: torch.device) -> None:
    if lifetime == "offload" and device.type == "cpu":
        raise Refused(
            "--learner-lifetime offload: the learner computes on the CPU here, in main memory already; "
            "--learner-lifetime step gives its memory back between updates"
        )


def _linears_to(model: torch.nn.Module, dtype: torch.dtype) -> None:
    """Applies to the layers' products only: residual stream, norms, output layer and adapters stay in f32."""
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and name.removesuffix(".base_layer").rsplit(".", 1)[-1] in PRODUCTS:
            module.to(dtype)
            if isinstance(module, QuantisedLinear):
                module.type_of_products = dtype


def check_targets(targets: list[str]) -> None:
    unknown = [target for target in targets if target not in LINEAR_LAYERS]
    if unknown:
        raise Refused(f"an adapter cannot be put on {unknown[0]}; there are {', '.join(LINEAR_LAYERS)}")


def adapted_layers(config: Any, targets: list[str]) -> list[str]:
    """Names of the linear layers that get an adapter. Raises Refused."""
    check_targets(targets)
    try:
        return ARCHITECTURES[MODEL_TYPES[config.model_type]].adapted(targets)
    except ValueError as error:
        raise Refused(f"--lora-targets: {error}") from None


def _with_adapter(model: torch.nn.Module, lora: Lora) -> PeftModel:
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        target_modules=adapted_layers(model.config, lora.targets),
        bias="none",
        task_type="CAUSAL_LM",
    )
    adapted = get_peft_model(model, config)
    for parameter in adapted.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    round_once(adapted)
    return adapted
