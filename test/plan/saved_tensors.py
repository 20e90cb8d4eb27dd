"""What PyTorch itself says of a pass of the learner, for the plan's tests: prints one line of JSON.

`saved`: bytes of the distinct storages that autograd keeps between forward and backward pass, weights aside. `live`:
the most bytes that tensors took at once in forward pass, scoring and backward pass, weights aside. On a CPU, in the
types and by the graph of a CUDA device; there, PyTorch's counter torch.cuda.max_memory_allocated is the same sum.
oneDNN stays out: on some CPUs it copies operands of 16 bits into buffers of its own, which are no tensors of the graph.
"""

import itertools
import json
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "native"), str(ROOT / "native" / "learner" / "tests")]
warnings.simplefilter("ignore")

import torch  # noqa: E402
from learner import attention, convolution, head, quantised  # noqa: E402
from learner.backend import LINEAR_LAYERS, TYPES, PeftBackend, _linears_to, _with_adapter  # noqa: E402
from learner.batch import BatchSequence  # noqa: E402
from learner.packing import plan_trajectories  # noqa: E402
from learner.request import Lora  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402

from models import make_model  # noqa: E402

RANK = 4
OWN = {
    # A layer of each kind, and a window shorter than some conversations.
    "gemma3": {"num_hidden_layers": 6, "sliding_window": 90},
    "lfm2": {"conv_L_cache": 3},
}
"""What an architecture has in place of that."""
SHAPE = dict(vocab_size=512, hidden_size=96, intermediate_size=288, num_hidden_layers=3)
SHAPE |= dict(num_attention_heads=6, num_key_value_heads=2, head_dim=16)
ROWS = {
    "group": (64, (48, 48, 48, 48)),
    "conversation": (100, (156,)),
    "uneven": (150, (20, 60, 70)),
    "short": (200, (8,) * 12),
}
"""Of "short", branches attend together."""
TARGETS = {"all": list(LINEAR_LAYERS), "two": ["q_proj", "v_proj"]}


def make_backend(architecture: str, precision: str, targets: list[str]) -> PeftBackend:
    """As PeftBackend makes it, around a model that is in no file."""
    attention.register()
    model = make_model(architecture, **(SHAPE | OWN.get(architecture, {}))).requires_grad_(False)
    model.config._attn_implementation = attention.NAME
    convolution.pack(model)
    if precision != "f32":
        _linears_to(model, TYPES[precision])
    backend = PeftBackend.__new__(PeftBackend)
    backend.device, backend.precision = torch.device("cpu"), precision
    backend.model = _with_adapter(model, Lora(RANK, 8, targets))
    backend._causal = backend.model.base_model.model
    backend.model.train()
    return backend


def make_row(prompt: int, completions: tuple[int, ...]):
    shared = torch.randint(SHAPE["vocab_size"], (prompt,))
    members, slot = [], 0
    for number, length in enumerate(completions):
        # One more, whose own position is not computed: nothing is predicted from it. In a row they are in order of ids.
        own = torch.cat((torch.tensor([number]), torch.randint(SHAPE["vocab_size"], (length,))))
        ids = torch.cat((shared, own))
        sampled = torch.arange(len(ids)) > prompt
        members.append(BatchSequence(ids, sampled, 0, prompt, slot))
        slot += length
    (pack,) = plan_trajectories(members, prompt + sum(completions))
    return pack


def saved_bytes(backend: PeftBackend, pack) -> int:
    weights = itertools.chain(backend.model.parameters(), backend.model.buffers())
    known = {tensor.untyped_storage().data_ptr() for tensor in weights}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            # Held, so that no later storage has the same address.
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        hidden = backend.hidden(pack)
    total = sum(storage.nbytes() for storage in kept.values())
    del hidden
    return total


def live_bytes(backend: PeftBackend, pack) -> int:
    def update():
        hidden = backend.hidden(pack)
        scores = head.score(
            hidden.detach(),
            backend.output_weight(),
            pack.sources,
            pack.targets,
            1.0,
            lambda logprobs: -torch.ones_like(logprobs),
        )
        hidden.backward(scores.gradient)

    update()
    for parameter in backend.trainable():
        parameter.grad = None
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        update()
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


def main() -> None:
    torch.manual_seed(0)
    torch.backends.mkldnn.enabled = False
    cases = []
    names = ("qwen2", "qwen3", "llama", "olmo2", "gemma3", "phi3", "lfm2")
    computed = [(name, precision) for name in names for precision in ("f32", "bf16")]
    for (architecture, precision), row, targets in itertools.product([*computed, ("qwen2", "f16")], ROWS, TARGETS):
        if architecture == "phi3" and targets == "two":
            # Of one layer's parts.
            continue
        backend = make_backend(architecture, precision, TARGETS[targets])
        pack = make_row(*ROWS[row])
        case = {"architecture": architecture, "precision": precision, "targets": TARGETS[targets], "row": ROWS[row]}
        for checkpointing in (False, True):
            backend.checkpointing(checkpointing)
            case |= {"checkpointing": checkpointing, "saved": saved_bytes(backend, pack)}
            cases.append(case | ({"live": live_bytes(backend, pack)} if targets == "all" else {}))
    chunks = {"cpu": head.CHUNK_BYTES, "cuda": head.CHUNK_BYTES_CUDA}
    constants = {"chunkBytes": chunks, "maskAlignment": attention.MASK_ALIGNMENT, "piece": quantised.PIECE}
    print(json.dumps({"shape": SHAPE, "own": OWN, "rank": RANK, "cases": cases, "constants": constants}))


main()
