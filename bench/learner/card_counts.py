"""Counts what one update of hone's learner asks of a card: launches, copies, waits of the host, compilations.

On a card that does not compute (test/null-card), whose driver counts instead. So no figure here is a card's time, and
what depends on numbers is taken as well: the trials of ways to compute rows (native/learner/card.py) and the check of
Adam's step pass whatever they give, the policy is taken to be another one than the base model, and the output layer to
be exact in 16 bits, as the weights of Qwen2.5 and Llama 3 are. The model has the shape alone. The first update
compiles; goals are for the third and later ones.

`host` are the seconds of CPU time that the process used: since kernels take none, all that the card would wait for, in
the whole update and in its parts. `kept` counts what PyTorch's compiler loaded of an earlier process, and what it made.

    python bench/learner/card_counts.py --shape 0.5b --out bench/results

--side trl: the same rollouts in TRL's trainer, 8 in a micro-batch, as update.py has them. There are no goals for other
sides than hone. Unsloth's own loss cannot be counted: it asks the card how many tokens there are. Nor can TRL on Hopper
and newer, where PyTorch's attention is cuDNN's: the stand-in for that has none, and hone's learner does not take it.
The rollouts are those of update.py: --groups of --size that share a prompt. --vary gives every update other lengths.
"""

import argparse
import ctypes
import functools
import json
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "native")]

GOALS = {"launches": 3600, "compilations": 0, "waitsInRows": 0}
"""Most of each, of the third update and later ones, for 0.5b without --checkpointing."""
SHAPES = {
    # Heads of 128. Two layers: their kernels are those of all.
    "1.5b-2": dict(vocab_size=151936, hidden_size=1536, intermediate_size=8960, num_hidden_layers=2)
    | dict(num_attention_heads=12, num_key_value_heads=2),
    "0.5b-2": dict(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=2)
    | dict(num_attention_heads=14, num_key_value_heads=2),
}


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", choices=["0.5b", *SHAPES], default="0.5b")
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--size", type=int, default=8, help="rollouts in a group")
    parser.add_argument("--tokens", type=int, default=4096, help="of a row at most")
    parser.add_argument("--prompt", type=int, nargs=2, metavar=("LEAST", "MOST"), help="tokens; without --vary")
    parser.add_argument("--updates", type=int, default=4)
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--side", choices=["hone", "hone-unsloth", "trl"], default="hone")
    parser.add_argument("--weights", choices=["F16", "Q8_0", "Q4_0", "nf4"], help="as of update.py")
    parser.add_argument("--expanded", action="store_true", help="as of update.py")
    parser.add_argument("--vary", action="store_true", help="other lengths in each update")
    parser.add_argument("--later", action="store_true", help="adds to the file of a process whose code it loads")
    parser.add_argument("--kernels", type=int, default=0, help="lists so many, most launched first")
    parser.add_argument("--out", type=Path, help="a folder for a file of the results")
    return parser.parse_args()


class Counters:
    """Of this process, by the stand-in for CUDA's driver."""

    def __init__(self):
        try:
            self._driver = ctypes.CDLL("libcuda.so.1")
            self._write = self._driver.nullcuda_dump
        except (OSError, AttributeError):
            sys.exit("there is no card that counts: start this in the environment of test/null-card")
        self._file = f"{os.environ['NULLCUDA_LOG']}.{os.getpid()}"

    def now(self):
        self._write()
        return json.loads(Path(self._file).read_text())

    def since(self, before):
        return {name: value - before.get(name, 0) for name, value in self.now().items() if isinstance(value, int)}


class Parts:
    """What parts of an update launch, copy and wait for, and the host's seconds in them."""

    def __init__(self, counters):
        self._counters = counters
        self._open = False
        self.now = {}

    def watch(self, name, owner, function):
        inner = getattr(owner, function)

        @functools.wraps(inner)
        def watched(*arguments, **more):
            # Of a part within another one it is part of that.
            if self._open:
                return inner(*arguments, **more)
            self._open = True
            before, used = self._counters.now(), time.process_time()
            try:
                return inner(*arguments, **more)
            finally:
                self._open = False
                used = time.process_time() - used
                counted = asked_of(self._counters.since(before)) | {"host": round(used, 4)}
                had = self.now.get(name, dict.fromkeys(counted, 0))
                self.now[name] = {key: had[key] + value for key, value in counted.items()}

        setattr(owner, function, watched)


def asked_of(counts):
    return {
        "launches": counts.get("launch direct", 0),
        "copies": sum(n for name, n in counts.items() if name.startswith("copy") and name.endswith("calls")),
        "waits": counts.get("syncs", 0),
    }


def kept_of(compiler):
    """Of PyTorch's compiler: what it found in the folder of an earlier process, and what it had to make."""
    traced, made = compiler["aot_autograd"], compiler["inductor"]
    return {
        "loaded": traced["autograd_cache_hit"] + made["fxgraph_cache_hit"],
        "compiled": made["fxgraph_cache_miss"] + made["fxgraph_cache_bypass"],
        "unkept": traced["autograd_cache_bypass"],
    }


def kernels_of(counts):
    return {name.removeprefix("kernel "): n for name, n in counts.items() if name.startswith("kernel ") and n > 0}


def given(options):
    """What update.py is told."""
    fixed = dict(device="cuda", apart=False, batch=None, gradients=None, rows=8, threads=1, repeats=1)
    names = ("side", "weights", "shape", "groups", "size", "checkpointing", "expanded")
    same = {name: getattr(options, name) for name in names}
    more = dict(completion=(100, 200), row_tokens=options.tokens, prompt=options.prompt or (300, 600))
    return SimpleNamespace(**fixed, **same, **more)


def on_the_card(bench):
    """Random models are made there: what is in them is no matter."""
    import torch

    made = bench.make_model

    def make(*arguments):
        with torch.device("cuda"):
            return made(*arguments)

    bench.make_model = make


class Hone:
    """Our learner, whose waits in rows are counted by themselves."""

    def __init__(self, bench, settings, counters):
        import torch
        from learner import card, packing_check, update
        from learner.optimizer import Optimizer
        from learner.passes import Passes
        from learner.probe import Probe
        from learner.written_check import AdamStep

        tried = card._why_not

        def passed(*arguments):
            tried(*arguments)

        card._why_not = passed
        AdamStep.check = update.check_base = lambda *_: None
        packing_check.check_packing = card.Rows._try_output_layer = lambda *_: None
        on_the_card(bench)
        self._parts = Parts(counters)
        watched = {
            "trial": (card.Rows, "settle"),
            "rows": (Passes, "accumulate"),
            "probe": (Probe, "__init__"),
            "probe afterwards": (Probe, "finished"),
            "copy of the weights": (Optimizer, "snapshot"),
            "clipping": (Optimizer, "clip"),
            "Adam": (Optimizer, "update"),
        }
        for name, (owner, function) in watched.items():
            self._parts.watch(name, owner, function)
        backend = bench.make_backend(settings, bench.choose_device("cuda"))
        backend.rows._exact = {torch.bfloat16: True}
        bench.make_backend = lambda *_: backend
        self._bench, self._settings, self._backend = bench, settings, backend

    def begin(self):
        return self._bench.run_hone(self._settings)

    def more(self):
        parts, self._parts.now = self._parts.now, {}
        waits = parts.get("rows", {}).get("waits", 0)
        return {"way": self._backend.rows.way.name, "waitsInRows": waits, "parts": parts}


class Theirs:
    def __init__(self, bench, settings):
        self._bench, self._settings = bench, settings

    def begin(self):
        begun = self._bench.run_trl(self._settings)
        from trl.trainer import grpo_trainer

        # Metrics that fail where nothing is a number.
        grpo_trainer.nanmin = grpo_trainer.nanmax = lambda values: values.flatten()[0]
        return begun

    def more(self):
        return {}


def main():
    options = parse()
    counters = Counters()
    import learner  # noqa: F401  (sets what PyTorch reads when it is imported)
    import torch
    import update as bench
    from torch._dynamo.utils import counters as compiler

    if not torch.cuda.is_available():
        sys.exit("PyTorch sees no card")
    if options.side == "trl" and torch.cuda.get_device_capability() >= (9, 0):
        print("not countable: TRL's attention on this card is cuDNN's, and the null card has no cuDNN")
        return
    bench.SHAPES.update(SHAPES)
    settings = given(options)
    side = Hone(bench, settings, counters) if options.side.startswith("hone") else Theirs(bench, settings)
    step = None
    rows = []
    for number in range(options.updates):
        if step is None or options.vary:
            if number > 0:
                settings.prompt = (200 + 150 * number, 300 + 200 * number)
            step, result = side.begin()
        torch.cuda.reset_peak_memory_stats()
        compiled, kept = compiler["stats"]["unique_graphs"], kept_of(compiler)
        before, used = counters.now(), time.process_time()
        step()
        used = time.process_time() - used
        counts = counters.since(before)
        rows.append(
            {
                "update": number,
                "positions": result()["computed"],
                **side.more(),
                **asked_of(counts),
                "host": round(used, 3),
                "kept": {name: n - kept[name] for name, n in kept_of(compiler).items()},
                "compilations": compiler["stats"]["unique_graphs"] - compiled,
                "modulesLoaded": counts.get("modules loaded", 0),
                "allocations": counts.get("malloc device calls", 0),
                "peakBytes": torch.cuda.max_memory_allocated(),
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    for name, count in sorted(kernels_of(counts).items(), key=lambda one: -one[1])[: options.kernels]:
        print(f"{count:6} {name[:150]}")
    usual = options.shape == "0.5b" and not (options.checkpointing or options.prompt or options.weights)
    goals = GOALS if usual else {**GOALS, "launches": None}
    if options.side != "hone":
        goals = {}
    steady = {name: max(row[name] for row in rows[2:]) for name in goals} if len(rows) > 2 else {}
    missed = [name for name, most in goals.items() if most is not None and steady.get(name, 0) > most]
    if options.out:
        name = torch.cuda.get_device_name()
        ways = [*(["checkpointing"] if options.checkpointing else []), *(["other-lengths"] if options.vary else [])]
        ways += [f"prompt-{options.prompt[1]}"] if options.prompt else []
        ways += [options.weights.lower()] if options.weights else []
        ways += [options.side] if options.side != "hone" else []
        ways += ["expanded"] if options.expanded else []
        ways += [f"{options.groups}x{options.size}"] if (options.groups, options.size) != (4, 8) else []
        file = (
            options.out
            / f"card-counts-learner-{'-'.join([options.shape, *ways])}-{name.lower().replace(' ', '-')}.json"
        )
        about = {
            "what": "counts on a card that does not compute, and the host's seconds of CPU time: none are a card's",
            "card": name,
            "torch": torch.__version__,
            "rollouts": options.groups * options.size,
            "shape": options.shape,
            "most": steady,
            "goals": goals,
        }
        about |= {"updates": rows}
        if options.later:
            about = json.loads(file.read_text()) | {"later": rows}
        file.write_text(json.dumps(about, indent=2) + "\n")
    if missed:
        sys.exit(f"more than the goal: {', '.join(f'{name} {steady[name]} of {goals[name]}' for name in missed)}")


if __name__ == "__main__":
    main()
