"""Unsloth's backend on a CPU: the engine's weights, updates as PEFT's, and what it refuses.

What only a GPU's path does (rows told apart by packed_seq_lengths) is tried with a model that takes them as Unsloth's
does there.
"""

import importlib.util
import json
import warnings
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from batches import open_settings, sft_settings, step_settings, write_random_batch
from conftest import leaks
from learner import choice, head, scaling, unsloth_backend
from learner.backend import TYPES, PeftBackend, _with_adapter
from learner.batch import BatchSequence, read_batch
from learner.errors import Refused
from learner.gguf_model import read_gguf
from learner.model import load_base
from learner.optimizer import Optimizer
from learner.packing import plan_trajectories
from learner.packing_check import check_packing
from learner.request import AdamSettings, Lora
from learner.session import Session
from learner.unsloth_backend import UnslothBackend, whole_lengths
from learner.unsloth_model import write_holes
from learner.update import policy_update
from safetensors import safe_open
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from models import make_model, write_gguf

pytestmark = pytest.mark.full

HERE = importlib.util.find_spec("unsloth") is not None
if HERE:
    with warnings.catch_warnings():
        # The order of imports, which __main__.py keeps, does not matter on a CPU.
        warnings.simplefilter("ignore")
        choice.import_unsloth("cpu")
installed = pytest.mark.skipif(not HERE, reason="Unsloth is not installed here")
ARCHITECTURES = ("qwen2", "qwen3", "llama")


@pytest.fixture(params=ARCHITECTURES)
def base(request, tmp_path):
    return write_gguf(make_model(request.param), tmp_path / "model.gguf")


def products(session):
    """B·A of each layer, by name: what the adapter adds to the model."""
    state = {name: value.detach() for name, value in session._backend.model.named_parameters()}
    return {name: state[name.replace("lora_A", "lora_B")] @ value for name, value in state.items() if "lora_A" in name}


def furthest(one, other):
    ours, theirs = products(one), products(other)
    assert ours.keys() == theirs.keys() and ours
    return max(float((ours[name] - theirs[name]).norm() / theirs[name].norm()) for name in ours)


@installed
@pytest.mark.parametrize("tied", [True, False])
def test_the_weights_are_those_of_the_engines_file_bit_for_bit(tmp_path, silent, tied):
    """Unsloth has loaded zeros; on a GPU it also changes rows of what it loads, that of the padding token at least."""
    file = write_gguf(make_model("llama", tied=tied), tmp_path / "model.gguf")
    session = Session(open_settings(file, backend="unsloth"), silent)
    loaded = dict(session._backend._causal.named_parameters())
    read = read_gguf(str(file))
    for name in read.tensors:
        parameter = loaded.get(name)
        if parameter is None:
            parameter = loaded[name.replace(".weight", ".base_layer.weight")]
        assert torch.equal(parameter, read.tensor(name)), name


@installed
def test_three_updates_are_pefts(base, tmp_path, silent):
    batch = write_random_batch(tmp_path / "batch.safetensors")
    sessions = {name: Session(open_settings(base, backend=name), silent) for name in ("unsloth", "peft")}
    assert sessions["unsloth"].info["backend"] == "unsloth" and "unsloth" in sessions["unsloth"].info["versions"]
    for update in range(3):
        done = {
            name: session.step(step_settings(batch, tmp_path / name / str(update)), silent)
            for name, session in sessions.items()
        }
        assert done["unsloth"]["loss"] == pytest.approx(done["peft"]["loss"], rel=1e-4)
    assert furthest(sessions["unsloth"], sessions["peft"]) < 1e-3


@installed
def test_seeds_have_more_than_32_bits(qwen2, silent):
    def first_weights(seed):
        return Session(open_settings(qwen2, backend="unsloth", seed=seed), silent)._backend.trainable()[0]

    # As hone derives them from a run's seed (src/core/util/random.ts).
    seed = 2**52 + 5
    assert torch.equal(first_weights(seed), first_weights(seed))
    assert not torch.equal(first_weights(seed), first_weights(seed + 1))


@installed
def test_whole_trajectories_in_place_of_shared_prefixes_give_the_same_updates(base, tmp_path, silent):
    batch = write_random_batch(tmp_path / "batch.safetensors")
    shared = Session(open_settings(base), silent)
    alone = Session(open_settings(base, backend="unsloth"), silent)
    alone._backend.shares = False
    for update in range(3):
        ours = alone.step(step_settings(batch, tmp_path / "alone" / str(update)), silent)
        theirs = shared.step(step_settings(batch, tmp_path / "shared" / str(update)), silent)
    # Each as far as its last sampled token, from whose place nothing is predicted.
    whole = sum(int(one.sampled.nonzero().max()) for one in read_batch(batch, 96).sequences)
    assert ours["tokens"]["computed"] == whole > theirs["tokens"]["computed"]
    assert furthest(alone, shared) < 1e-3


@installed
def test_gradient_checkpointing_and_supervised_learning_give_the_same(base, tmp_path, silent):
    batch = write_random_batch(tmp_path / "batch.safetensors", advantage=1.0)
    sessions = {name: Session(open_settings(base, backend=name), silent) for name in ("unsloth", "peft")}
    learning = {"epochs": 2, "updateTrajectories": 4, "gradientCheckpointing": True}
    for name, session in sessions.items():
        torch.manual_seed(5)
        session.sft(sft_settings(batch, tmp_path / name / "sft", **learning), silent)
        session.step(step_settings(batch, tmp_path / name / "step", gradientCheckpointing=False), silent)
    assert furthest(sessions["unsloth"], sessions["peft"]) < 1e-3


@installed
def test_a_checkpoint_of_one_goes_on_with_the_other(qwen2, tmp_path, silent):
    batch = write_random_batch(tmp_path / "batch.safetensors")
    first = Session(open_settings(qwen2, backend="unsloth"), silent)
    first.step(step_settings(batch, tmp_path / "0001"), silent)
    config = json.loads((tmp_path / "0001" / "adapter" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] in (None, "")
    second = Session(open_settings(qwen2, resume=str(tmp_path / "0001")), silent)
    assert second.info["updates"] == 1
    for name, session in (("unsloth", first), ("peft", second)):
        session.step(step_settings(batch, tmp_path / name), silent)
    assert furthest(first, second) < 1e-3


@installed
def test_kl_to_the_base_is_that_of_the_model_without_its_adapter(qwen2, tmp_path, silent):
    batch = write_random_batch(tmp_path / "batch.safetensors")
    done = {}
    for name in ("unsloth", "peft"):
        session = Session(open_settings(qwen2, backend=name), silent)
        for update in range(2):
            request = step_settings(batch, tmp_path / name / str(update), klCoefficient=0.1)
            done[name] = session.step(request, silent)["klBase"]
    assert done["unsloth"] == pytest.approx(done["peft"], rel=1e-3) and done["peft"] > 0


@installed
@pytest.mark.parametrize("precision", ["bf16", "f16"])
def test_a_base_in_16_bits_is_trained_and_written(qwen2, tmp_path, silent, precision):
    session = Session(open_settings(qwen2, backend="unsloth", precision=precision), silent)
    assert session.info["precision"] == precision
    # Unsloth takes f32 in place of f16 on some CPUs.
    assert session._backend.output_weight().dtype in {TYPES[precision], torch.float32 if precision == "f16" else None}
    assert {parameter.dtype for parameter in session._backend.trainable()} == {torch.float32}
    batch = write_random_batch(tmp_path / "batch.safetensors")
    metrics = session.step(step_settings(batch, tmp_path / "0001"), silent)
    assert metrics["applied"] and metrics["precision"] == precision and metrics["overflows"] == 0
    with safe_open(tmp_path / "0001" / "adapter" / "adapter_model.safetensors", framework="pt") as file:
        names = list(file.keys())
        assert all(file.get_tensor(name).isfinite().all() for name in names)


@installed
def test_overflows_in_f16_are_computed_again_and_counted_as_pefts_are(qwen2, tmp_path, silent, monkeypatch):
    monkeypatch.setattr(scaling, "FIRST", 2.0**40)
    batch = write_random_batch(tmp_path / "batch.safetensors")
    done = {}
    for name in ("unsloth", "peft"):
        session = Session(open_settings(qwen2, backend=name, precision="f16"), silent)
        done[name] = session.step(step_settings(batch, tmp_path / name), silent)
    assert all(metrics["applied"] and metrics["precision"] == "f16" for metrics in done.values())
    assert min(metrics["overflows"] for metrics in done.values()) > 2
    assert done["unsloth"]["loss"] == pytest.approx(done["peft"]["loss"], abs=1e-2)


@installed
def test_the_scaling_of_rope_is_that_of_the_file(tmp_path, silent):
    model = make_model("llama")
    factors = torch.linspace(1, 8, 4)
    file = write_gguf(model, tmp_path / "model.gguf", rope_factors=factors)
    batch = write_random_batch(tmp_path / "batch.safetensors")
    losses = {
        name: Session(open_settings(file, backend=name), silent).step(step_settings(batch, tmp_path / name), silent)
        for name in ("unsloth", "peft")
    }
    assert losses["unsloth"]["mismatch"] == losses["peft"]["mismatch"]


def as_on_a_gpu(backend, obeys=True):
    """The backend as Unsloth's on CUDA: nothing is shared; packed_seq_lengths tell trajectories apart, or do not."""

    def forward(module, query, key, value, mask, scaling, packed_seq_lengths=None, **_):
        key, value = (each.repeat_interleave(query.shape[1] // key.shape[1], 1) for each in (key, value))
        ends = [0, *packed_seq_lengths.cumsum(0).tolist()] if obeys else [0, query.shape[2]]
        rows = [(query[:, :, a:b], key[:, :, a:b], value[:, :, a:b]) for a, b in pairwise(ends)]
        parts = [scaled_dot_product_attention(*row, is_causal=True, scale=scaling) for row in rows]
        return torch.cat(parts, 2).transpose(1, 2), None

    AttentionInterface.register("like_unsloth_on_cuda", forward)
    backend._causal.model.config._attn_implementation = "like_unsloth_on_cuda"
    backend.__class__ = UnslothBackend
    backend._begin(backend.device)
    backend.shares, backend._fast = False, True
    backend._unsloth = SimpleNamespace(for_training=lambda *_, **__: None)
    backend.checkpointing(False)
    return backend


def test_rows_of_whole_trajectories_are_told_apart_by_their_lengths(base, tmp_path, silent):
    batch = read_batch(write_random_batch(tmp_path / "batch.safetensors"), 96)
    reference = PeftBackend(open_settings(base), silent)
    backend = as_on_a_gpu(PeftBackend(open_settings(base), silent))
    states = {}
    for name, one in (("shared", reference), ("whole", backend)):
        states[name] = torch.zeros(batch.sampled_tokens, 32)
        for pack in plan_trajectories(batch.sequences, 200, one.shares):
            with torch.no_grad():
                states[name][pack.slots] = one.hidden(pack)[pack.sources]
    assert torch.allclose(states["whole"], states["shared"], atol=1e-4)


def test_a_row_that_shares_a_prefix_is_never_given_to_a_backend_that_cannot_share(peft, tmp_path):
    batch = read_batch(write_random_batch(tmp_path / "batch.safetensors"), 96)
    (pack,) = plan_trajectories(batch.sequences, 4096)
    with pytest.raises(ValueError, match="shares a prefix"):
        as_on_a_gpu(peft).hidden(pack)


def test_a_mask_that_is_ignored_is_caught_before_anything_is_trained(peft, tmp_path, silent):
    batch = read_batch(write_random_batch(tmp_path / "batch.safetensors"), 96)
    backend = as_on_a_gpu(peft, obeys=False)
    before = [parameter.detach().clone() for parameter in backend.trainable()]
    optimizer = Optimizer(backend.trainable(), AdamSettings())
    request = step_settings("", "")
    with pytest.raises(Refused, match=r"unsloth does not keep packed rollouts apart on cpu: .*use --learner peft"):
        policy_update(backend, optimizer, batch, request, silent)
    assert all(torch.equal(a, b) for a, b in zip(backend.trainable(), before, strict=True))
    assert optimizer.updates == 0


@pytest.fixture
def pack():
    (pack,) = plan_trajectories([BatchSequence(torch.arange(9), torch.arange(9) > 3, 0, 4, 0)], 64, False)
    return pack


def test_the_check_is_made_once_for_each_device_and_kind_of_checkpointing(peft, pack):
    backend = as_on_a_gpu(peft)
    calls = []
    computed = backend.computed
    backend.computed = lambda row: calls.append(len(row.ids)) or computed(row)

    def rows():
        calls.clear()
        backend.hidden(pack)
        return len(calls)

    checked = rows()
    assert checked > 1 and rows() == 1
    backend.checkpointing(True)
    assert rows() == checked and rows() == 1
    backend.checkpointing(False)
    assert rows() == 1


@pytest.mark.parametrize("when", ["one length", "long"])
def test_on_a_gpu_rollouts_of_other_lengths_are_checked_too(peft, pack, when):
    """Unsloth has other kernels for them."""

    def change(row, states):
        lengths = whole_lengths(row)
        wrong = len(set(lengths.tolist())) == 1 if when == "one length" else lengths.float().mean() > 1024
        return states * 1.5 if len(lengths) > 1 and wrong else states

    backend = leaks(as_on_a_gpu(peft), change)
    check_packing(backend)
    with pytest.raises(Refused, match=r"does not keep packed rollouts apart.*rollouts of (24, 24|1130, 1040)"):
        backend.hidden(pack)


def test_long_rollouts_for_which_there_is_no_memory_are_left_unchecked_with_a_note(peft, pack):
    def change(row, states):
        if len(row.ids) > 3000:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return states

    backend = leaks(as_on_a_gpu(peft), change)
    backend.hidden(pack)
    (note,) = backend.notes()
    assert note == "no memory to check a packed row of rollouts of 1130, 1040, 1080 tokens on cpu"
    assert backend.notes() == []


def test_the_output_layer_is_tried_and_goes_on_in_f32_where_it_gives_something_else(peft, pack, monkeypatch):
    backend = as_on_a_gpu(peft)
    backend._causal.lm_head.weight = torch.nn.Parameter(backend.output_weight().half(), requires_grad=False)
    backend.precision = "f16"
    monkeypatch.setattr(head, "in_halves", lambda device: True)
    monkeypatch.setattr(head, "multiply", lambda a, b, out: torch.mm(a.float(), b.float(), out=out).mul_(1.1))
    assert backend.output_weight().dtype == torch.float16
    backend.hidden(pack)
    assert backend.output_weight().dtype == torch.float32
    (note,) = backend.notes()
    assert note.startswith("the learner's output layer computes in f32 on cpu: ")


@pytest.mark.parametrize(("device", "kinds"), [("cuda", ["unsloth", False, "unsloth"]), ("cpu", [False, False, True])])
def test_the_kind_of_checkpointing_is_there_when_the_adapter_is_made(qwen2, silent, monkeypatch, device, kinds):
    """Unsloth removes its own from PyTorch for adapters that are made without it; for_training only turns it on."""
    seen = []

    class Unsloth:
        @staticmethod
        def get_peft_model(model, r, lora_alpha, target_modules, use_gradient_checkpointing, **_):
            seen.append(use_gradient_checkpointing)
            return _with_adapter(model, Lora(r, lora_alpha, target_modules))

        @staticmethod
        def for_training(model, use_gradient_checkpointing):
            seen.append(use_gradient_checkpointing)

    monkeypatch.setattr(unsloth_backend, "choose_device", torch.device)
    monkeypatch.setattr(unsloth_backend, "import_unsloth", lambda _: SimpleNamespace(FastLanguageModel=Unsloth))
    monkeypatch.setattr(
        unsloth_backend, "load_base_with_unsloth", lambda path, hf, progress, *_: load_base(path, hf, progress)
    )
    backend = UnslothBackend(open_settings(qwen2, device=device), silent)
    backend.checkpointing(True)
    assert seen == kinds


def test_an_overflow_in_f16_is_sent_to_bf16_where_there_is_some(peft, without_bf16):
    backend = as_on_a_gpu(peft)
    backend.precision = "f16"
    with pytest.raises(Refused, match=r"not finite in f16.*; go on with --learner peft"):
        backend.compute_in("bf16")
    backend._fast = False
    with pytest.raises(Refused, match=r"go on with --precision bf16 or --learner peft"):
        backend.compute_in("bf16")


@pytest.mark.parametrize("backend", ["peft", pytest.param("unsloth", marks=installed)])
def test_a_folder_of_4_bit_weights_is_refused_and_says_what_to_give(qwen2, tmp_path, silent, backend):
    folder = tmp_path / "folder"
    make_model("qwen2").save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    (folder / "config.json").write_text(json.dumps(config))
    base = {"gguf": str(qwen2), "hf": str(folder)}
    with pytest.raises(Refused, match=r"(?s)has quantised weights \(bitsandbytes\).*16-bit weights.*GGUF") as refused:
        Session(open_settings(qwen2, backend=backend, base=base), silent)
    # What is wrong, and how to mend it.
    assert len(str(refused.value).splitlines()) == 2


@installed
def test_weights_of_a_folder_are_taken(qwen2, tmp_path, silent):
    folder = tmp_path / "folder"
    make_model("qwen2").save_pretrained(folder)
    batch = write_random_batch(tmp_path / "batch.safetensors")
    base = {"gguf": str(qwen2), "hf": str(folder)}
    losses = [
        Session(open_settings(qwen2, backend=name, base=base), silent).step(
            step_settings(batch, tmp_path / name), silent
        )["loss"]
        for name in ("unsloth", "peft")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@installed
def test_nothing_is_left_behind_where_hone_was_started(qwen2, tmp_path, silent, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    session = Session(open_settings(qwen2, backend="unsloth"), silent)
    session.step(step_settings(write_random_batch(tmp_path / "b.safetensors"), tmp_path / "0001"), silent)
    assert {path.name for path in set(tmp_path.iterdir()) - before} == {"b.safetensors", "0001"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_file_of_holes_is_a_safetensors_file_of_zeros(tmp_path, dtype):
    path = tmp_path / "holes.safetensors"
    shapes = {"a": [1024, 512], "b": [7]}
    write_holes(path, shapes, dtype)
    with safe_open(path, framework="pt") as file:
        names = list(file.keys())
        assert {name: list(file.get_tensor(name).shape) for name in names} == shapes
        assert all(file.get_tensor(name).dtype == dtype and not file.get_tensor(name).any() for name in names)
    assert path.stat().st_blocks * 512 < path.stat().st_size / 2
