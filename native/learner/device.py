"""The device that the learner computes on. The requested one is used or refused with the reason, never replaced."""

import ctypes
import os
import re

import torch

from .errors import Refused

HOW = "; give a Python whose PyTorch fits (--python), mend the driver, or use --gpu off"


def choose_device(wanted: str) -> torch.device:
    if wanted == "cuda":
        why = why_no_cuda()
        if why is not None:
            raise Refused(f"the learner is to compute on CUDA, and cannot: {why}{HOW}")
        # On Hopper PyTorch prefers cuDNN's attention, which plans anew for every shape: blocks of a row have hundreds.
        torch.backends.cuda.enable_cudnn_sdp(False)
        # Parts of a sum that were rounded to 16 bits would lose what a young adapter changes (adapted_linear.py).
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    return torch.device(wanted)


def why_no_cuda() -> str | None:
    """Returns when PyTorch can compute on the first visible GPU, else raises."""
    if torch.version.cuda is None:
        return f"PyTorch {torch.__version__} was built without CUDA"
    if torch.cuda.is_available():
        return _unknown_to_build(torch.cuda.get_device_capability(0), torch.cuda.get_arch_list())
    version, complaint = _ask_driver()
    if version is None:
        return f"NVIDIA's driver cannot be loaded: {complaint}"
    if version < _number(torch.version.cuda) // 1000 * 1000:
        known = f"{version // 1000}.{version % 1000 // 10}"
        return (
            f"PyTorch {torch.__version__} was built for CUDA {torch.version.cuda}, the driver knows CUDA up to {known}"
        )
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.split(",")[0].strip() in ("", "-1"):
        return f"CUDA_VISIBLE_DEVICES={visible!r} hides all GPUs"
    try:
        torch.cuda.init()
        said = "PyTorch gives no reason"
    except Exception as error:
        said = str(error).splitlines()[0]
    hint = "" if visible is None else f" (CUDA_VISIBLE_DEVICES is {visible})"
    return f"PyTorch sees no NVIDIA GPU{hint}: {said}"


def on_device(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A copy to a card from memory that it can read by itself: the host does not wait for the card, as it does with
    `to`. On a CPU the tensor itself."""
    return values.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else values.to(device)


def has_bf16() -> bool:
    """Whether the visible GPU multiplies bf16: Ampere and newer do. PyTorch emulates it on older ones."""
    return torch.cuda.is_bf16_supported(including_emulation=False)


def _number(version: str) -> int:
    """In the driver's encoding: 13.0 is 13000, 12.6 is 12060."""
    major, _, minor = version.partition(".")
    return int(major) * 1000 + int(minor or 0) * 10


def _ask_driver() -> tuple[int | None, str]:
    """The newest CUDA that the driver supports; or the loader's message about its library."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return None, str(error)
    version = ctypes.c_int(0)
    if driver.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return None, "it does not tell its version"
    return version.value, ""


def _unknown_to_build(capability: tuple[int, int], architectures: list[str]) -> str | None:
    """Machine code runs on its generation from its number up, PTX (`compute_`) on every newer one."""
    if not architectures:
        return None
    here = capability[0] * 10 + capability[1]
    for name in architectures:
        kind, number = re.fullmatch(r"(sm|compute)_(\d+)[a-z]*", name).groups() if "_" in name else ("", "0")
        code = int(number)
        if code <= here and (kind == "compute" or code // 10 == here // 10):
            return None
    known = ", ".join(architectures)
    return (
        f"PyTorch {torch.__version__} has no code for this GPU (compute capability {capability[0]}.{capability[1]}; "
        f"it was built for {known})"
    )
