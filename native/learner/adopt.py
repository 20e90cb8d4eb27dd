"""Converts a PEFT adapter to the files of a checkpoint: `python -m learner.adopt FOLDER MODEL.gguf INTO`.

src/machine/models/adapter.ts has compared it with the model before. INTO gets no optimizer: training that goes on from
it begins with a fresh one.
"""

import json
import shutil
import sys
from pathlib import Path

import gguf
from safetensors.torch import load_file

from .checkpoint import sync
from .gguf_adapter import Base, UnsupportedAdapter, write_gguf_adapter


def base_of(model: str) -> Base:
    """Facts about the base model that the adapter's file needs."""
    reader = gguf.GGUFReader(model)
    architecture = reader.get_field("general.architecture").contents()
    heads = reader.get_field(f"{architecture}.attention.head_count").contents()
    field = reader.get_field(f"{architecture}.attention.head_count_kv")
    kv_heads = heads if field is None else field.contents()
    # A list where layers have different numbers.
    return Base(architecture, heads, max(kv_heads) if isinstance(kv_heads, list) else kv_heads)


def adopt(folder: Path, model: str, into: Path) -> None:
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    state = load_file(folder / "adapter_model.safetensors")
    # PEFT may have a pattern there; the learner compares names.
    config["target_modules"] = sorted({name.split(".")[-3] for name in state})
    write_gguf_adapter(state, config, base_of(model), into / "adapter.gguf", name=folder.name)
    (into / "adapter").mkdir()
    (into / "adapter" / "adapter_config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    shutil.copyfile(folder / "adapter_model.safetensors", into / "adapter" / "adapter_model.safetensors")
    sync(into)


def main() -> None:
    folder, model, into = sys.argv[1:]
    try:
        adopt(Path(folder), model, Path(into))
    except (OSError, UnsupportedAdapter) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
