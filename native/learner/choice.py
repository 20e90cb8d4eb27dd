"""Chooses the backend. Called before transformers and PEFT are imported, since Unsloth must be imported first."""

import importlib
import importlib.util
import os
import sys
from typing import Any

from .errors import Refused
from .request import OpenRequest

ROPE_FACTORS = "rope_freqs.weight"
# The command for messages; without the variable the learner was started by hand, in a checkout.
DOCTOR = os.environ.get("HONE_DOCTOR", "yarn doctor")
INSTALL = f"`{DOCTOR} --install --learner unsloth` adds it to hone's own environment"


WHY_PEFT = (
    "--learner auto takes PEFT, though Unsloth is installed: its rows compute a beginning that rollouts share once, "
    "Unsloth's on a GPU once for each rollout"
)


def chosen(settings: OpenRequest, ranks: int = 1) -> str:
    """ "peft" or "unsloth". Raises Refused when Unsloth is requested and cannot be used.

    auto is PEFT: it shares prefixes in every model and takes all weights that Unsloth takes, so that nothing needs it.
    `ranks`: processes that compute updates together.
    """
    if settings.backend != "unsloth":
        return "peft"
    why_not = _why_not(settings, ranks)
    if why_not is not None:
        raise Refused(f"--learner unsloth: {why_not}; or use --learner peft")
    return "unsloth"


def notes(settings: OpenRequest) -> list[str]:
    """Why the choice is not what one may expect."""
    passed_over = settings.backend == "auto" and settings.device == "cuda" and _is_installed()
    return [WHY_PEFT] if passed_over else []


def _is_installed() -> bool:
    return importlib.util.find_spec("unsloth") is not None


def _why_not(settings: OpenRequest, ranks: int) -> str | None:
    if settings.lora is None:
        return "with it hone trains adapters, and all weights are to be trained"
    if ranks > 1:
        return "it computes in one process, and --learner-launch starts several"
    if settings.lifetime == "offload":
        return "its model stays on the device that it was loaded on; use --learner-lifetime step in place of offload"
    if not _is_installed():
        return f"{sys.executable} has no Unsloth; {INSTALL}"
    if settings.device == "cuda" and settings.precision == "bf16" and not _has_bf16():
        return "this GPU has no bf16, in place of which it takes f16; use --precision f16"
    base = settings.base
    if architecture := _untried(base.gguf):
        return f"{base.gguf} is a model of {architecture}, whose computation by Unsloth was not tried"
    if settings.device == "cuda" and not base.hf and _scales_rope(base.gguf):
        return (
            f"{base.gguf} scales RoPE by factors, which cannot be handed to Unsloth on a GPU; "
            "give --hf-weights with the original folder"
        )
    return None


def _has_bf16() -> bool:
    """True without CUDA: choosing the device reports that."""
    import torch

    from .device import has_bf16

    return not torch.cuda.is_available() or has_bf16()


def _untried(path: str) -> str | None:
    """The file's architecture, where Unsloth's own computation of it is not taken. None for a file that is not GGUF:
    loading it reports the error."""
    from .architectures import ARCHITECTURES
    from .gguf_header import HeaderReader

    try:
        field = HeaderReader(path).get_field("general.architecture")
    except (OSError, ValueError):
        return None
    name = None if field is None else field.contents()
    known = ARCHITECTURES.get(name)
    return name if known is not None and not known.unsloth else None


def _scales_rope(path: str) -> bool:
    """False for a file that is not GGUF: loading it reports the error."""
    from .gguf_header import HeaderReader

    try:
        return any(tensor.name == ROPE_FACTORS for tensor in HeaderReader(path).tensors)
    except (OSError, ValueError):
        return False


def import_first(settings: OpenRequest, ranks: int = 1) -> None:
    """Imports Unsloth if it is chosen: on a GPU it patches transformers and PEFT before they are used."""
    if chosen(settings, ranks) == "unsloth":
        import_unsloth(settings.device)
    else:
        # PEFT loads it where it is installed, and with it PyTorch's compiler, for layers that hone's models lack:
        # a fifth of what a start computes.
        sys.modules.setdefault("bitsandbytes", None)


def import_unsloth(device: str) -> Any:
    """The module, restricted to `device` and without network access.

    Raises Refused when the device is not available, or Unsloth cannot be imported.
    """
    from .device import choose_device

    choose_device(device)
    os.environ["UNSLOTH_DISABLE_STATISTICS"] = "1"
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["UNSLOTH_FORCE_CPU" if device == "cpu" else "UNSLOTH_DISABLE_CPU_FALLBACK"] = "1"
    # Otherwise a folder of generated sources appears in the current folder.
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    os.environ.setdefault("UNSLOTH_COMPILE_LOCATION", os.path.join(cache, "hone", "unsloth"))
    try:
        return importlib.import_module("unsloth")
    except Exception as error:  # its errors for missing packages and other versions are of various types
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise Refused(f"Unsloth in {sys.executable} cannot be imported ({reason}); use --learner peft") from error
