"""AdamW of PyTorch."""

import torch

from .request import AdamSettings


def make_adam(parameters: list[torch.nn.Parameter], settings: AdamSettings) -> torch.optim.Optimizer:
    """With a learning rate of 0."""
    return torch.optim.AdamW(parameters, lr=0.0, betas=settings.betas, weight_decay=settings.weight_decay)
