"""Ranks with a part of each weight compute the update of one process, and write and read the same checkpoints."""

import pytest
import torch
from batches import open_settings, step_settings, write_random_batch, write_tree_batch
from learner.errors import Refused
from learner.launched import ALONE
from learner.sharded_ranks import join
from rank_jobs import cases, check_same_as_alone, computed, job
from safetensors.torch import load_file, save_file

from models import make_model, write_gguf


@pytest.mark.parametrize(
    ("kind", "worlds"),
    [
        ("f32", (2,)),
        pytest.param("f64", (2, 4), marks=pytest.mark.full),
        pytest.param("f32", (4,), marks=pytest.mark.full),
    ],
)
def test_parts_compute_the_gradients_the_metrics_and_the_adapter_of_one(tmp_path, kind, worlds):
    file = tmp_path / "job"
    named = cases(tmp_path)
    if kind == "f32" and worlds == (2,):
        named = {name: named[name] for name in ("one row", "mini-batches and KL", "imitation")}
    torch.save(job(tmp_path, named.values(), f64=kind == "f64", sharded=True), file)
    check_same_as_alone(file, worlds, named, kind)


def test_what_goes_wrong_on_one_rank_is_the_same_for_all(tmp_path):
    """Also in the middle of a row, while the others wait for its next gather."""
    batch = write_random_batch(tmp_path / "batch.safetensors", groups=5)
    request = step_settings(batch, tmp_path, microBatchTokens=60)
    faults = ["none", "memory", "forward", "backward", "gather", "refused", "other", "repeat", "overflow", "none"]
    file = tmp_path / "job"
    torch.save(job(tmp_path, [request | {"fault": fault} for fault in faults], scaled=True, sharded=True), file)
    of_each = [dict(zip(enumerate(faults), done, strict=True)) for done in computed(file, 2)]
    good = of_each[0][0, "none"]
    for name in of_each[0]:
        one, other = (found[name] for found in of_each)
        fault = name[1]
        assert torch.equal(one["weights"], other["weights"])
        if fault in ("none", "repeat", "overflow"):
            assert torch.equal(one["weights"], good["weights"]), name
            assert one["metrics"]["overflows"] == (fault == "overflow")
        else:
            assert torch.equal(one["weights"], one["before"]), name
            assert one["memory"] == other["memory"] == (fault not in ("refused", "other")), name
    assert of_each[0][5, "refused"]["said"] == of_each[1][5, "refused"]["said"] == "this rank refuses"


@pytest.mark.full
def test_a_rank_that_dies_or_hangs_is_not_waited_for(tmp_path):
    batch = write_random_batch(tmp_path / "batch.safetensors", groups=5)
    request = step_settings(batch, tmp_path, microBatchTokens=60)
    file = tmp_path / "job"
    torch.save(job(tmp_path, [request | {"fault": "death"}], sharded=True), file)
    ((first,),) = computed(file, 2, dead={1})
    assert first["error"] == "LostRanks" and first["said"].startswith("rank 0 has lost the others at ")
    torch.save(job(tmp_path, [request | {"fault": "hang"}], seconds=3, sharded=True), file)
    (first,), _ = computed(file, 2)
    assert first["error"] == "LostRanks" and first["said"].startswith("rank 0 has lost the others at ")


MODELS = {
    "tied": ("qwen2", {}, {}, {}),
    "an output layer of its own": ("llama", {"tied": False}, {}, {}),
    "checkpointing": ("qwen3", {"tied": False}, {}, {"gradientCheckpointing": True}),
    "scaled embeddings and windows": ("gemma3", {}, {}, {"gradientCheckpointing": True}),
    "convolutions": ("lfm2", {}, {}, {"gradientCheckpointing": True}),
    "blocks": ("qwen2", {"hidden_size": 64}, {"kind": "Q8_0"}, {}),
    "an engine that rounds adapters": ("qwen2", {}, {}, {"adapterType": "bf16"}),
    "three ranks": ("qwen2", {"num_hidden_layers": 3}, {}, {}),
}


def started(folder, settings, requests, world, shards=None):
    """On one rank a whole model, on several parts of it."""
    file = folder / "job"
    shards = shards or (world if world > 1 else None)
    torch.save({"settings": settings, "requests": requests, "shards": shards}, file)
    return computed(file, world, program="session_program.py")


def adapter(folder):
    return load_file(folder / "adapter" / "adapter_model.safetensors")


def check_same_checkpoint(one, other, limit):
    """The same files, with the same tensors to rounding."""
    assert sorted(file.name for file in one.rglob("*")) == sorted(file.name for file in other.rglob("*"))
    ours, theirs = adapter(one), adapter(other)
    assert ours.keys() == theirs.keys()
    assert all(torch.allclose(ours[name], theirs[name], rtol=0, atol=limit) for name in ours)
    states = [torch.load(folder / "optimizer.pt", weights_only=True) for folder in (one, other)]
    moments = [state.pop("adam")["state"] for state in states]
    assert moments[0].keys() == moments[1].keys()
    for number, state in moments[0].items():
        for name, value in state.items():
            their = moments[1][number][name]
            assert value.shape == their.shape and value.dtype == their.dtype
            assert float((value - their).norm()) <= 1e-4 * float(their.norm())
    assert states[0].pop("random").equal(states[1].pop("random")) and states[0] == states[1]


@pytest.mark.parametrize(
    "kind", ["tied", *(pytest.param(name, marks=pytest.mark.full) for name in MODELS if name != "tied")]
)
def test_checkpoints_are_those_of_one_process_and_go_on_with_any_number_of_ranks(tmp_path, kind):
    architecture, shape, file, more = MODELS[kind]
    world = 3 if kind == "three ranks" else 2
    model = write_gguf(make_model(architecture, **shape), tmp_path / "model.gguf", **file)
    settings = open_settings(model)
    batch = write_tree_batch(tmp_path / "batch.safetensors", groups=4)

    def steps(*names, **further):
        wanted = step_settings(batch, tmp_path, microBatchTokens=60, klCoefficient=0.05, learningRate=1e-3, **more)
        return [("step", wanted | further | {"into": str(tmp_path / name)}) for name in names]

    (alone,) = started(tmp_path, settings, steps("a1", "a2"), 1)
    ranks = started(tmp_path, settings, steps("s1", "s2"), world)
    assert ranks[0]["info"]["sharded"] and not alone["info"]["sharded"]
    assert ranks[0]["info"]["parameters"] == alone["info"]["parameters"]
    limit = 1e-5
    check_same_checkpoint(tmp_path / "s2", tmp_path / "a2", limit)
    for found, wanted in zip(ranks[0]["metrics"], alone["metrics"], strict=True):
        assert found["loss"] == pytest.approx(wanted["loss"], rel=1e-4, abs=1e-6)
        assert found["gradNorm"] == pytest.approx(wanted["gradNorm"], rel=1e-4)
    # From the one to the other, and back. Another policy is looked at, and does not stay.
    generator = torch.Generator().manual_seed(0)
    far = {
        name: one + torch.randn(one.shape, generator=generator) * 0.3 for name, one in adapter(tmp_path / "a1").items()
    }
    (tmp_path / "far" / "adapter").mkdir(parents=True)
    save_file(far, tmp_path / "far" / "adapter" / "adapter_model.safetensors")
    further = {"earlier": {"checkpoint": str(tmp_path / "far")}, "previous": {"checkpoint": None}}
    first, *_ = started(tmp_path, settings | {"resume": str(tmp_path / "a1")}, steps("as2", **further), world)
    check_same_checkpoint(tmp_path / "as2", tmp_path / "a2", limit)
    (last,) = started(tmp_path, settings | {"resume": str(tmp_path / "s1")}, steps("sa2", **further), 1)
    check_same_checkpoint(tmp_path / "sa2", tmp_path / "a2", limit)
    ours, theirs = (found["metrics"][0]["played"] for found in (first, last))
    assert ours["tokens"] == theirs["tokens"] > 0
    assert ours["slope"] == pytest.approx(theirs["slope"], rel=0.01, abs=0.001)
    # With the same ranks it is the same, bit for bit.
    started(tmp_path, settings | {"resume": str(tmp_path / "s1")}, steps("ss2"), world)
    assert all(map(torch.equal, adapter(tmp_path / "ss2").values(), adapter(tmp_path / "s2").values()))


def test_a_rank_holds_its_part_of_the_weights_alone(tmp_path):
    model = write_gguf(make_model("qwen2", hidden_size=128, intermediate_size=512), tmp_path / "model.gguf")
    batch = write_random_batch(tmp_path / "batch.safetensors", groups=3)
    requests = [("step", step_settings(batch, tmp_path))]
    (alone,) = started(tmp_path, open_settings(model), requests, 1)
    for rank in started(tmp_path, open_settings(model), requests, 2):
        for when in ("loaded", "between"):
            print(f"{when}: {alone[when]} bytes of tensors in one process, {rank[when]} in one of two")
            # Beside the halves there are buffers, and random states of the optimizer.
            assert 0.5 <= rank[when] / alone[when] < 0.55


@pytest.mark.full
@pytest.mark.parametrize("tied", [True, False])
def test_all_weights_are_trained_in_parts(tmp_path, tied):
    model = write_gguf(make_model("qwen2", tied), tmp_path / "model.gguf")
    batch = write_random_batch(tmp_path / "batch.safetensors", groups=5)

    def request(name):
        wanted = step_settings(batch, tmp_path / name, updateTrajectories=6, epochs=2, warmup=0.1, learningRate=1e-3)
        return [("sft", wanted | {"microBatchTokens": 60})]

    (alone,) = started(tmp_path, open_settings(model, lora=None), request("alone"), 1)
    first, _ = started(tmp_path, open_settings(model, lora=None), request("parts"), 2)
    assert first["metrics"][0]["loss"]["last"] == pytest.approx(alone["metrics"][0]["loss"]["last"], rel=1e-4)
    ours, theirs = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("parts", "alone"))
    assert ours.keys() == theirs.keys()
    assert all(torch.allclose(ours[name], theirs[name], rtol=0, atol=1e-5) for name in ours)
    assert (tmp_path / "parts" / "model.gguf").stat().st_size == (tmp_path / "alone" / "model.gguf").stat().st_size


def test_the_number_of_parts_is_that_of_the_ranks():
    with pytest.raises(Refused, match=r"^--learner-shards 2 gives .* it starts 1: name the same number in both"):
        join(ALONE, "cpu", 2)
