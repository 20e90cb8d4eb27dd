"""A base model loaded by Unsloth, with the weights of the engine's file.

Unsloth loads Hugging Face folders only. It gets one whose weights are a sparse file: zeros that take no disk space.
The real weights are written afterwards, tensor by tensor, on the device and in the type that it has chosen. So they are
the same as with every other backend (gguf_model.py), whatever a loader does to weights (Unsloth zeroes the row of the
padding token).
"""

import json
import os
import struct
import tempfile
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import torch
from transformers import PretrainedConfig, PreTrainedModel

from . import attention
from .choice import import_unsloth
from .errors import Refused
from .gguf_model import GgufModel, read_gguf
from .model import check_whole, empty_model, load_base, place_rope
from .protocol import Progress

_TYPE_NAMES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}


def load_base_with_unsloth(
    gguf_path: str,
    hf_folder: str | None,
    progress: Progress,
    device: torch.device,
    dtype_of: Callable[[GgufModel], torch.dtype],
) -> tuple[PreTrainedModel, GgufModel]:
    """The model on `device`, in the type that `dtype_of` returns for its file.

    Raises Refused with the reason when it cannot be trained.
    """
    unsloth = import_unsloth(device.type)
    attention.register()
    if hf_folder:
        source, file = load_base(gguf_path, hf_folder, progress)
        config, tensors = source.config, dict(source.named_parameters())
    else:
        file = read_gguf(gguf_path)
        config, tensors = file.config, None
    dtype = dtype_of(file)
    with tempfile.TemporaryDirectory(prefix="hone-unsloth-") as folder:
        _write_folder(Path(folder), config, dtype)
        model, _ = unsloth.FastLanguageModel.from_pretrained(
            model_name=folder,
            max_seq_length=config.max_position_embeddings,
            dtype=dtype,
            load_in_4bit=False,
            full_finetuning=False,
            offload_embedding=False,
            use_exact_model_name=True,
            local_files_only=True,
            **({"attn_implementation": attention.NAME} if device.type == "cpu" else {"device_map": {"": 0}}),
        )
    names = dict(model.named_parameters())
    if tensors is None:
        check_whole(set(names), file)
    for done, (name, parameter) in enumerate(sorted(names.items())):
        _keep_type(parameter, name, dtype)
        _put(parameter, tensors[name].detach() if tensors else file.tensor(name), name, device)
        progress("loading", done + 1, len(names))
    model.tie_weights()
    if tensors is None and device.type == "cpu":
        place_rope(model, file)
    # PEFT would write the folder's name, which no longer exists, into every adapter.
    model.name_or_path = model.config._name_or_path = ""
    return model, file


def _keep_type(parameter: torch.nn.Parameter, name: str, dtype: torch.dtype) -> None:
    """On a CPU Unsloth loads bf16 where f16 is requested, which would round the engine's weights. There the model is
    transformers' own and computes in any type. Raises Refused where Unsloth's kernels are made for its choice.
    """
    if parameter.dtype == dtype or parameter.dtype == torch.float32:
        return
    if parameter.device.type != "cpu":
        raise Refused(f"Unsloth loaded {name} as {parameter.dtype}, where {dtype} was asked for; use --learner peft")
    parameter.data = parameter.data.to(dtype)


@torch.no_grad()
def _put(parameter: torch.nn.Parameter, values: torch.Tensor, name: str, device: torch.device) -> None:
    """Raises Refused when Unsloth has changed the parameter's shape or type."""
    if parameter.shape != values.shape or parameter.device.type != device.type:
        raise Refused(
            f"Unsloth loaded {name} as {list(parameter.shape)} on {parameter.device}, where the model file has "
            f"{list(values.shape)} for {device}; use --learner peft"
        )
    parameter.copy_(values)


def _write_folder(folder: Path, config: PretrainedConfig, dtype: torch.dtype) -> None:
    saved = type(config).from_dict(config.to_dict())
    model = empty_model(saved)
    saved.architectures = [type(model).__name__]
    saved.dtype = dtype
    saved.save_pretrained(folder)
    tied = {"lm_head.weight"} if saved.tie_word_embeddings else set()
    shapes = {name: list(tensor.shape) for name, tensor in model.state_dict().items() if name not in tied}
    write_holes(folder / "model.safetensors", shapes, dtype)
    write_tokenizer(folder)


def write_holes(path: Path, shapes: dict[str, list[int]], dtype: torch.dtype) -> None:
    """A safetensors file of zeros. https://github.com/huggingface/safetensors#format"""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, shape in shapes.items():
        end = at + prod(shape) * dtype.itemsize
        header[name] = {"dtype": _TYPE_NAMES[dtype], "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.flush()
        os.ftruncate(file.fileno(), 8 + len(text) + at)


def write_tokenizer(folder: Path) -> None:
    """Unsloth requires a tokenizer. This one is never used: hone trains on ids."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"<unk>": 0, "<pad>": 1, "<eos>": 2}, unk_token="<unk>"))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", pad_token="<pad>", eos_token="<eos>", bos_token="<eos>"
    )
    tokenizer.save_pretrained(folder)
