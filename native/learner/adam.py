"""AdamW of PyTorch."""

from typing import Any

import torch

DEFAULT_BETAS = (0.9, 0.99)
DEFAULT_WEIGHT_DECAY = 0.1


def make_adam(parameters: list[torch.nn.Parameter], settings: dict[str, Any]) -> torch.optim.Optimizer:
    """With a learning rate of 0."""
    return torch.optim.AdamW(
        parameters,
        lr=0.0,
        betas=tuple(settings.get("betas", DEFAULT_BETAS)),
        weight_decay=settings.get("weightDecay", DEFAULT_WEIGHT_DECAY),
    )
