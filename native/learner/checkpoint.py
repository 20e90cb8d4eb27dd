"""The files of an update, and resuming a learner from them.

Every file and folder is written and then fsynced; hone renames the folder into place.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from peft import PeftModel, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file

from . import probe as probe_file
from .backend import Backend, adapted_layers
from .copies import copies, put
from .errors import Refused, is_out_of_memory
from .full_weights import write_model
from .fused_weights import adapter_of
from .gguf_adapter import Base, write_gguf_adapter
from .optimizer import Optimizer
from .request import Lora
from .written_check import check_files, check_resumed


def write(folder: str, backend: Backend, optimizer: Optimizer, probe: dict[str, Any] | None = None) -> None:
    """The new checkpoint's files. `folder` may exist; files of the same names are replaced.

    Raises Refused when the disk is full: every library has an error of its own for that.
    """
    try:
        _write(Path(folder), backend, optimizer, probe)
    except (OSError, RuntimeError, SafetensorError) as error:
        if is_out_of_memory(error):
            raise
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise Refused(f"the checkpoint cannot be written to {folder} ({reason}); is the disk full?") from error


def _paired(weights: dict[str, torch.Tensor], backend: Backend) -> tuple[list[torch.nn.Parameter], list[torch.Tensor]]:
    """What is trained, and its values among these weights, which have PEFT's names in files. Raises KeyError."""
    names = {id(one): name for name, one in adapter_of(backend.model).items()}
    trained = backend.trainable()
    return trained, [weights[names[id(one)]] for one in trained]


def _write(path: Path, backend: Backend, optimizer: Optimizer, probe: dict[str, Any] | None) -> None:
    path.mkdir(parents=True, exist_ok=True)
    if isinstance(backend.model, PeftModel):
        backend.model.save_pretrained(path / "adapter", safe_serialization=True)
        (path / "adapter" / "README.md").unlink(missing_ok=True)
        state = adapter_of(backend.model)
        base = Base.of(backend.base.config.to_dict())
        config = backend.model.peft_config["default"].to_dict()
        write_gguf_adapter(state, config, base, path / "adapter.gguf", name="hone")
    else:
        write_model(path, backend.model, backend.base)
    moments = optimizer.written()
    torch.save(moments, path / "optimizer.pt")
    probe_file.write(path, probe)
    if isinstance(backend.model, PeftModel):
        check_files(path, backend.model, base, optimizer.held(), probe)
    sync(path)


def sync(folder: Path) -> None:
    """Files first, then the folders that contain them."""
    for root, _, files in os.walk(folder, topdown=False):
        for name in (*(os.path.join(root, file) for file in files), root):
            descriptor = os.open(name, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def resume(folder: str, backend: Backend, optimizer: Optimizer, lora: Lora) -> None:
    """Restores a checkpoint's adapter, optimizer and random state. Raises Refused when they do not fit.

    Without optimizer.pt (an adapter that another program trained) the optimizer stays fresh. In other checkpoints the
    manifest names it, and hone has checked the folder against that.
    """
    path = Path(folder)
    try:
        config = json.loads((path / "adapter" / "adapter_config.json").read_text())
        weights = load_file(path / "adapter" / "adapter_model.safetensors")
        # Loading moves the moments to their parameters; step counts and random states belong on the CPU.
        saved = path / "optimizer.pt"
        state = torch.load(saved, map_location="cpu", weights_only=True) if saved.exists() else None
    except (OSError, ValueError, RuntimeError, SafetensorError, UnpicklingError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise Refused(f"the checkpoint {folder} cannot be read ({reason}); start from the one before it") from error
    _check_fits(config, weights, backend.model, lora, folder)
    set_peft_model_state_dict(backend.model, weights)
    if state is not None:
        optimizer.load(state)
    check_resumed(path, backend.model, optimizer.held())


def digest(folder: str) -> str | None:
    """SHA-256 of a checkpoint's file for the engine, by which hone names adapters; None without one."""
    file = Path(folder) / "adapter.gguf"
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else None


def earlier_policy(folder: str | None, backend: Backend) -> Callable[[], AbstractContextManager[None]]:
    """Makes contexts in which the model is the policy of a checkpoint, or with None the one before any training.

    Raises Refused when the checkpoint cannot be read.
    """
    if folder is None:
        return backend.base_policy
    try:
        weights = load_file(Path(folder) / "adapter" / "adapter_model.safetensors")
        parameters, values = _paired(weights, backend)
    except (OSError, ValueError, SafetensorError) as error:
        raise Refused(f"the checkpoint {folder} cannot be read ({error})") from error
    except KeyError as error:
        raise Refused(f"the checkpoint {folder} has no {error.args[0]}: it is of another adapter") from error
    # Contexts are entered for each few rollouts: from the host the weights would be transferred as often.
    theirs = [torch.empty_like(one, requires_grad=False) for one in parameters]
    put(theirs, values)

    @contextmanager
    def policy() -> Iterator[None]:
        present = copies(parameters)
        try:
            put(parameters, theirs)
            yield
        finally:
            put(parameters, present)

    return policy


def _check_fits(
    config: dict[str, Any], weights: dict[str, torch.Tensor], model: PeftModel, lora: Lora, folder: str
) -> None:
    pairs = {
        "rank": (config["r"], lora.rank),
        "alpha": (config["lora_alpha"], lora.alpha),
        "target layers": (sorted(config["target_modules"]), sorted(adapted_layers(model.config, lora.targets))),
    }
    for what, (theirs, ours) in pairs.items():
        if theirs != ours:
            raise Refused(
                f"the adapter in {folder} has {what} {theirs}, this run has {ours}; use the same, or start anew"
            )
    expected = {name: tensor.shape for name, tensor in get_peft_model_state_dict(model).items()}
    found = {name: tensor.shape for name, tensor in weights.items()}
    if expected.keys() != found.keys():
        name = sorted(expected.keys() ^ found.keys())[0]
        raise Refused(f"the adapter in {folder} belongs to another model: {name} is only in one of them")
    for name, shape in expected.items():
        if found[name] != shape:
            raise Refused(
                f"the adapter in {folder} belongs to another model: "
                f"{name} is {list(found[name])} there, {list(shape)} here"
            )
