"""Describes the computing device, in its maker's words."""

import contextlib
import ctypes
from typing import Any

import torch


def name_of(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def cuda_of(device: torch.device) -> dict[str, Any] | None:
    """CUDA version of PyTorch's build and the driver's version; None where the device is no CUDA device."""
    if device.type != "cuda":
        return None
    return {"version": str(torch.version.cuda), "driver": _driver()}


def _driver() -> str | None:
    """NVIDIA's management library comes with the driver, on WSL too. None where it does not answer."""
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL("libnvidia-ml.so.1")
        if library.nvmlInit_v2() != 0:
            return None
        try:
            text = ctypes.create_string_buffer(80)
            if library.nvmlSystemGetDriverVersion(text, len(text)) == 0:
                return text.value.decode()
        finally:
            library.nvmlShutdown()
    return None
