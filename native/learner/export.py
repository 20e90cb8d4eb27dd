"""Writes a model with an adapter merged into it, for other programs: `python -m learner.export REQUEST`.

REQUEST is JSON, an ExportRequest. src/machine/export/ moves the complete result to its place.
"""

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import gguf
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from .architectures import ARCHITECTURES
from .errors import Refused
from .gguf_adapter import UnsupportedAdapter
from .gguf_model import GgufModel, file_order
from .gguf_write import check_f16, write_gguf
from .hf_tokenizer import write_tokenizer
from .lifeline import die_with_parent
from .merged import Merged
from .request import read

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
DTYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32"}
"""As config.json names them."""
SHARD = 4 * 10**9
"""Bytes of one safetensors file at most; they are in memory while it is written."""


@dataclass(frozen=True)
class ExportRequest:
    form: Literal["gguf", "safetensors"]
    type: Literal["f32", "f16", "bf16"]
    model: str
    """The GGUF file that the adapter was trained on."""
    adapter: str | None
    """A folder in PEFT's format; None for the model alone."""
    source: str | None
    """The model's folder in Hugging Face format."""
    files: list[str]
    """Names of files of `source` to copy unchanged."""
    into: str
    """A file for gguf, a folder for safetensors."""


def shards_of(base: GgufModel, most: int, width: int = 2) -> list[list[str]]:
    """Names of the tensors in each file, of `width` bytes a number."""
    shards: list[list[str]] = [[]]
    room = most
    for name in sorted(base.tensors):
        size = width * int(base.tensors[name].n_elements)
        if size > room and shards[-1]:
            shards.append([])
            room = most
        shards[-1].append(name)
        room -= size
    return shards


def write_safetensors(merged: Merged, kind: str, folder: Path, most: int = SHARD) -> None:
    """Writes model.safetensors, or its parts with an index."""
    shards = shards_of(merged.base, most, TYPES[kind].itemsize)
    where: dict[str, str] = {}
    total = 0
    for number, names in enumerate(shards, 1):
        file = "model.safetensors" if len(shards) == 1 else f"model-{number:05}-of-{len(shards):05}.safetensors"
        tensors = {}
        for name in names:
            values = merged.tensor(name)
            if kind == "f16":
                check_f16(name, values)
            tensors[name] = values.to(TYPES[kind]).contiguous()
            total += tensors[name].nbytes
            where[name] = file
        save_file(tensors, folder / file, metadata={"format": "pt"})
    if len(shards) > 1:
        index = {"metadata": {"total_size": total}, "weight_map": where}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2), encoding="utf-8")


def config_of(base: GgufModel, source: Path | None, kind: str) -> dict[str, Any]:
    dtype = DTYPES[kind]
    if source is not None:
        config = json.loads((source / "config.json").read_text(encoding="utf-8"))
        # transformers 4 reads the first name, 5 both.
        return {key: value for key, value in config.items() if key != "dtype"} | {"torch_dtype": dtype}
    if base.rope_factors is not None:
        raise Refused(
            f"{base.path} stretches RoPE by factors that config.json cannot say: give --base-folder with the model's "
            "folder in Hugging Face form"
        )
    config = base.config.to_dict()
    rope = config["rope_parameters"]
    # Read by transformers 4 and programs of its time; 5 reads rope_parameters.
    if "sliding_attention" in rope:
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
    config["rope_theta"] = rope["rope_theta"]
    if rope["rope_type"] != "default":
        config["rope_scaling"] = {key: value for key, value in rope.items() if key != "rope_theta"}
    about = ARCHITECTURES[base.architecture]
    if about.convolves:
        # vLLM reads them.
        config |= {"block_dim": config["hidden_size"], "conv_dim": config["hidden_size"]}
    name = about.prefix
    config.pop("dtype", None)
    return config | {"architectures": [f"{name}ForCausalLM"], "torch_dtype": dtype, "use_cache": True}


def write_folder(merged: Merged, request: ExportRequest) -> None:
    folder = Path(request.into)
    folder.mkdir(parents=True, exist_ok=True)
    source = None if request.source is None else Path(request.source)
    config = config_of(merged.base, source, request.type)
    if source is None:
        context = merged.base.config.max_position_embeddings
        ids = write_tokenizer(request.model, folder, context)
        config |= ids
        (folder / "generation_config.json").write_text(json.dumps({"do_sample": True, **ids}, indent=2) + "\n")
    else:
        for name in request.files:
            # Files in the Hub's cache are links, and templates by name stand in a folder of their own.
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / name, folder / name)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    write_safetensors(merged, request.type, folder)


def export(request: ExportRequest) -> None:
    merged = Merged(request.model, None if request.adapter is None else Path(request.adapter))
    if request.form == "safetensors":
        write_folder(merged, request)
    else:
        reader = gguf.GGUFReader(merged.base.path)
        write_gguf(Path(request.into), reader, file_order(merged.base, merged.tensor), request.type)


def main() -> None:
    die_with_parent()
    try:
        export(read(ExportRequest, json.loads(sys.argv[1])))
    except (Refused, UnsupportedAdapter) as error:
        sys.exit(str(error))
    except (OSError, SafetensorError) as error:
        sys.exit(f"{type(error).__name__}: {error}".splitlines()[0])


if __name__ == "__main__":
    main()
