"""The forward pass of a row through fused layers (fused.py): transformers' with hone's attention and few kernels."""

from typing import Any

import torch

from .architectures import ARCHITECTURES, MODEL_TYPES
from .device import on_device
from .fused import checkpointed_layer_output, layer_output
from .fused_weights import ADAPTER, Joints
from .packing import Pack


def last_states(
    norm: torch.nn.Module, hidden: torch.Tensor, added: torch.Tensor, predicting: torch.Tensor
) -> torch.Tensor:
    return norm((hidden + added)[predicting])


class FusedModel:
    """Around a decoder of transformers with adapters of PEFT, of which it changes the place of the frozen weights."""

    def __init__(self, model: Any, options: dict[str, Any] | None) -> None:
        """`options` of torch.compile; None: nothing is compiled."""
        self._model = model
        about = ARCHITECTURES[MODEL_TYPES[model.config.model_type]]
        self._norms = about.norms
        self._joints = Joints(model.layers, about.inputs)
        self._turns = [_turn(layer.self_attn, about.windows > 0) for layer in model.layers]
        self._adapter = next(module for module in model.layers[0].modules() if ADAPTER in getattr(module, "lora_A", ()))
        compiled = (lambda one: one) if options is None else (lambda one: torch.compile(one, **options))
        self._kept, self._checkpointed = compiled(layer_output), compiled(checkpointed_layer_output)
        self._last = compiled(last_states)
        device = self._device()
        self._signs = torch.tensor([[-1.0], [1.0]], device=device)

    def moved(self) -> None:
        """Must be called when the model has moved to another device, and before its weights get another type."""
        self._joints.drop()
        self._signs = self._signs.to(self._device())

    def _device(self) -> torch.device:
        return self._model.embed_tokens.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """Of the frozen weights, and so of products."""
        return self._joints.dtype

    def hidden(self, row: Pack, layout: Any) -> torch.Tensor:
        """Last hidden states at predicting positions, [P, width]."""
        device = self._device()
        hidden = self._model.embed_tokens(on_device(row.ids, device))
        # Granite's.
        if hasattr(self._model, "embedding_multiplier"):
            hidden = hidden * self._model.embedding_multiplier
        added = torch.zeros_like(hidden, dtype=self.dtype)
        learns = torch.is_grad_enabled()
        for one in (hidden, added):
            # As the inputs of the other layers: so one compiled layer serves all. Where activations are computed twice,
            # transformers' embeddings require gradients, with none computed too.
            one.requires_grad_(learns)
        turned = self._turned(hidden, on_device(row.positions, device))
        weights = self._joints.weights(not self._adapter.disable_adapters)
        for layer, own, turn in zip(self._model.layers, weights, self._turns, strict=True):
            output = self._checkpointed if layer.gradient_checkpointing and learns else self._kept
            hidden, added = output(layer, self._norms, own, hidden, added, *turned[turn], layout)
        return self._last(self._model.norm, hidden, added, on_device(row.predicting, device))

    def _turned(
        self, hidden: torch.Tensor, positions: torch.Tensor
    ) -> dict[tuple[str, ...] | None, tuple[torch.Tensor, torch.Tensor]]:
        """RoPE's cosines and signed sines for each way, [T, 2, half of the head size]."""
        turned: dict[tuple[str, ...] | None, tuple[torch.Tensor, torch.Tensor]] = {}
        for turn in dict.fromkeys(self._turns):
            if turn is not None:
                rotary = self._model.rotary_emb(hidden, positions[None], *turn)
                cosine, sine = (one[0].unflatten(-1, (2, -1)) for one in rotary)
                turned[turn] = cosine, sine * self._signs
        if None in self._turns:
            # A turn by nothing, which changes no number: so one compiled layer serves layers without RoPE, too.
            cosine, sine = next(iter(turned.values()))
            turned[None] = torch.ones_like(cosine), torch.zeros_like(sine)
        return turned


def _turn(attention: torch.nn.Module, by_type: bool) -> tuple[str, ...] | None:
    """How a layer applies RoPE: not at all (SmolLM3), or with what its model computes, given the layer's type
    (`by_type`)."""
    if not getattr(attention, "use_rope", True):
        return None
    return (attention.layer_type,) if by_type else ()


def fits(model: Any) -> bool:
    """Whether the model has adapters, and layers that this computes: not those with convolutions."""
    if not hasattr(model, "peft_config") or ARCHITECTURES[MODEL_TYPES[model.config.model_type]].convolves:
        return False
    layers = model.base_model.model.model.layers
    return any(ADAPTER in getattr(module, "lora_A", ()) for layer in layers for module in layer.modules())
