"""AdamW: PyTorch's, or the one of bitsandbytes that keeps its moments in 8 bits.

Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization", arXiv:2110.02861. Matrices of fewer than 4096
numbers keep moments of 32 bits there.
"""

import sys
from typing import Any

import torch

from .choice import INSTALL
from .errors import Refused

DEFAULT_BETAS = (0.9, 0.99)
DEFAULT_WEIGHT_DECAY = 0.1
DEFAULT_BITS = 32


def make_adam(parameters: list[torch.nn.Parameter], settings: dict[str, Any]) -> torch.optim.Optimizer:
    """With a learning rate of 0. Raises Refused when bitsandbytes is needed and not available."""
    numbers = {
        "lr": 0.0,
        "betas": tuple(settings.get("betas", DEFAULT_BETAS)),
        "weight_decay": settings.get("weightDecay", DEFAULT_WEIGHT_DECAY),
    }
    if settings.get("bits", DEFAULT_BITS) == DEFAULT_BITS:
        return torch.optim.AdamW(parameters, **numbers)
    try:
        import bitsandbytes
    except Exception as error:  # its native library may be missing, or incompatible with this PyTorch
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise Refused(
            f"--adam-bits 8 needs bitsandbytes, which {sys.executable} does not have or cannot load ({reason}); "
            + INSTALL
        ) from error
    return bitsandbytes.optim.AdamW8bit(parameters, **numbers)
