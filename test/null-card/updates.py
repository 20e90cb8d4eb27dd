"""Updates of hone's learner on a null card: python updates.py matrix|memory FOLDER [options]. Prints lines of JSON.

matrix    loads a model of two layers, and makes an update with activations kept and one with them computed twice.
memory    the same with a card that is full from a given place on: requests as hone sends them, answered by the
          learner's own loop, each with what it answered and how much of the card is held before and after.

The model has the sizes that kernels depend on: heads as --head says, in a width that Unsloth has its usual kernels for.
"""

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "native"), str(ROOT / "native/learner/tests")]
WIDTH = 256


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["matrix", "memory"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--head", type=int, default=64)
    parser.add_argument("--weights", choices=["F16", "BF16", "Q4_K"], default="F16")
    parser.add_argument("--backend", choices=["peft", "unsloth"], default="peft")
    parser.add_argument("--lifetime", choices=["run", "offload"], default="run")
    parser.add_argument("--places", nargs="*", default=[])
    return parser.parse_args()


def open_sent(options: argparse.Namespace) -> dict[str, Any]:
    """The request to open a model, as hone sends it."""
    from batches import open_message

    file = options.folder / f"{options.head}-{options.weights}.gguf"
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    lora = {"rank": 8, "alpha": 16, "targets": targets}
    kind = dict(backend=options.backend, device="cuda", precision="auto", lifetime=options.lifetime)
    return open_message(file, lora=lora, **kind)


def opening(options: argparse.Namespace) -> Any:
    from learner.request import OpenRequest, read

    return read(OpenRequest, open_sent(options))


def make_model_file(options: argparse.Namespace, path: str) -> None:
    # After Unsloth, which replaces parts of transformers.
    from models import make_model, write_gguf

    sizes = dict(hidden_size=WIDTH, intermediate_size=2 * WIDTH, head_dim=options.head, max_position_embeddings=4096)
    heads = dict(num_attention_heads=WIDTH // options.head, num_key_value_heads=1)
    # As llama.cpp's mixtures, and a type whose blocks the learner does not keep.
    others = {"self_attn.v_proj": "Q6_K", "layers.0.mlp.down_proj": "Q5_0", "layers.1.mlp.up_proj": "Q2_K"}
    mixed = others if options.weights == "Q4_K" else None
    write_gguf(make_model("qwen2", **sizes, **heads), Path(path), options.weights, others=mixed)


def step_sent(options: argparse.Namespace, name: str, **more: Any) -> dict[str, Any]:
    from batches import step_message, write_random_batch

    batch = options.folder / "batch.safetensors"
    if not batch.exists():
        write_random_batch(batch)
    return step_message(batch, options.folder / name, **more)


def stepping(options: argparse.Namespace, name: str, **more: Any) -> Any:
    from learner.request import StepRequest, read

    return read(StepRequest, step_sent(options, name, **more))


def matrix(options: argparse.Namespace) -> None:
    from learner.choice import import_first

    request = opening(options)
    import_first(request)
    from learner.session import Session

    make_model_file(options, request.base.gguf)
    session = Session(request, lambda *_: None)
    say(opened=session.info["backend"], **{name: session.info[name] for name in ("precision", "device", "blocks")})
    for twice in (False, True):
        name = "twice" if twice else "kept"
        result = session.step(stepping(options, name, gradientCheckpointing=twice), lambda *_: None)
        written = sorted(path.name for path in (options.folder / name).iterdir())
        way = session._backend.rows.way.name
        say(update=name, way=way, applied=result["applied"], notes=result["notes"], written=written)


class Card:
    """Its memory, as the file has it that the machine's processes share."""

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._file = Path(os.environ["NULLCUDA_SHM"])

    def held(self) -> int:
        free, total = self._torch.cuda.mem_get_info()
        return total - free

    def full(self, full: bool) -> None:
        """From now on nothing more fits, or as much as the card has."""
        with self._file.open("r+b") as file:
            file.write((self.held() if full else 0).to_bytes(8, "little"))

    def cached(self) -> list[Any]:
        """Takes all that PyTorch's allocator has of the card and could give again without asking for more."""
        taken: list[Any] = []
        for exponent in range(30, 8, -1):
            with contextlib.suppress(self._torch.cuda.OutOfMemoryError):
                while True:
                    taken.append(self._torch.empty(2**exponent, dtype=self._torch.uint8, device="cuda"))
        return taken


class Places:
    """Functions of the learner from whose beginning on the card is full."""

    def __init__(self, card: Card) -> None:
        from learner import card as ways
        from learner import head, passes, probe
        from learner.backend import PeftBackend
        from learner.optimizer import Optimizer
        from learner.residence import Residence

        self._card = card
        self._armed: str | None = None
        self.reached = False
        owners = {
            "coming back": (Residence, "_bring"),
            "trial of blocks": (ways.Rows, "_measured"),
            "trial of a faster way": (ways, "_why_not"),
            "copy of the weights": (Optimizer, "snapshot"),
            "probe": (probe.Probe, "__init__"),
            "row": (passes.Passes, "accumulate"),
            "output layer": (head, "score"),
            "backward pass": (PeftBackend, "backward"),
            "clipping": (Optimizer, "clip"),
            "Adam": (Optimizer, "update"),
            "probe afterwards": (probe.Probe, "finished"),
        }
        for name, (owner, function) in owners.items():
            self._watch(name, owner, function)

    def _watch(self, name: str, owner: Any, function: str) -> None:
        inner = getattr(owner, function)

        def watched(*arguments: Any, **more: Any) -> Any:
            if self._armed != name:
                return inner(*arguments, **more)
            self.reached = True
            self._card.full(True)
            taken = self._card.cached()
            try:
                return inner(*arguments, **more)
            finally:
                taken.clear()

        setattr(owner, function, watched)

    def arm(self, name: str | None) -> None:
        self._armed, self.reached = name, False
        self._card.full(False)


class Talk:
    """In the place of the connection to hone. The card is full for all requests but the last of each kind."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._about: dict[str, Any] = {}

    def start(self) -> None:
        pass

    def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "progress":
            return
        answer = {name: message.get(name) for name in ("code", "message")}
        notes = message.get("result", {}).get("notes")
        say(**self._about, held=self._card.held(), before=self._before, **answer, notes=notes, reached=self._reached())

    def _reached(self) -> bool:
        return self._places is None or self._places.reached

    def requests(self) -> Iterator[dict[str, Any]]:
        request = {"id": 1, "type": "open", **open_sent(self._options)}
        make_model_file(self._options, request["base"]["gguf"])
        self._card, self._places = Card(), None
        if self._options.lifetime == "run":
            self._card.full(True)
            yield self._tell("open", request)
            self._card.full(False)
        yield self._tell("open", request)
        self._places = Places(self._card)
        for number, place in enumerate(self._options.places):
            self._places.arm(place)
            step = {"id": 2 + number, "type": "step", **step_sent(self._options, f"{number}")}
            yield self._tell(place, step)
        self._places.arm(None)
        yield self._tell("step", {"id": 99, "type": "step", **step_sent(self._options, "last")})

    def _tell(self, what: str, request: dict[str, Any]) -> dict[str, Any]:
        self._about, self._before = {"what": what}, self._card.held()
        return request


def memory(options: argparse.Namespace) -> None:
    import learner.__main__ as program
    from learner.choice import import_first

    import_first(opening(options))
    program.protocol.Connection = lambda: Talk(options)
    program.guard = lambda descriptor, half=False: None
    program.main()


if __name__ == "__main__":
    chosen = parse()
    (matrix if chosen.what == "matrix" else memory)(chosen)
