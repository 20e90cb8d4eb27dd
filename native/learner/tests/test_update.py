"""A whole update: what it changes, what it leaves alone, and how it goes on from a checkpoint."""

import math
import os
import platform
import subprocess
import sys

import gguf
import pytest
import torch
from batches import open_settings, sft_settings, step_settings, write_random_batch
from learner.backend import LINEAR_LAYERS
from learner.errors import Refused
from learner.session import Session

from models import make_model, write_gguf


@pytest.fixture
def base(tmp_path):
    return write_gguf(make_model("qwen2"), tmp_path / "model.gguf")


@pytest.fixture
def session(base, silent):
    return Session(open_settings(base), silent)


def weights(session):
    return [parameter.detach().clone() for parameter in session._backend.trainable()]


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_an_update_changes_the_adapter_and_writes_a_whole_checkpoint(session, tmp_path, silent):
    batch = write_random_batch(tmp_path / "batch.safetensors")
    before = weights(session)
    metrics = session.step(step_settings(batch, tmp_path / "0001"), silent)
    assert metrics["applied"] and metrics["skipped"] is None
    assert not same(weights(session), before)
    files = {str(path.relative_to(tmp_path / "0001")) for path in (tmp_path / "0001").rglob("*") if path.is_file()}
    adapter = {"adapter/adapter_config.json", "adapter/adapter_model.safetensors", "adapter.gguf"}
    assert files == adapter | {"optimizer.pt", "probe.json"}
    assert metrics["groups"] == 3 and metrics["trajectories"] == 12
    assert metrics["tokens"]["computed"] < metrics["tokens"]["total"]
    assert metrics["clip"] == {"below": 0, "above": 0}
    assert 0 < metrics["entropy"] <= math.log(96)
    assert metrics["memory"]["peak"] > 0


@pytest.mark.full
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="others compute denormals at full speed")
def test_denormals_are_zero_on_every_thread(base):
    """They made updates of a trained model more than twice as slow. In a process whose threads nobody has started."""
    program = """
import sys, torch
from batches import open_settings
from learner.session import Session
Session(open_settings(sys.argv[1], threads=2), lambda *_: None)
print((torch.full((1_000_000,), 1e-39) * 1.0).count_nonzero().item())
"""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program, base], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"]


def test_small_rows_give_the_update_of_one_big_row(base, tmp_path, silent):
    batch = write_random_batch(tmp_path / "batch.safetensors", groups=4)
    results = []
    for budget in (4096, 40):
        session = Session(open_settings(base), silent)
        metrics = session.step(step_settings(batch, tmp_path / str(budget), microBatchTokens=budget), silent)
        results.append((metrics, weights(session)))
    (one, ours), (many, theirs) = results
    assert one["microBatches"] == 1 and many["microBatches"] > 5
    assert many["loss"] == pytest.approx(one["loss"], abs=1e-5)
    assert many["gradNorm"] == pytest.approx(one["gradNorm"], rel=1e-4)
    # Adam divides by the gradient's size: where a gradient is almost 0 its noise is not.
    assert (
        sum(float((a - b).abs().sum()) for a, b in zip(ours, theirs, strict=True)) / sum(a.numel() for a in ours) < 1e-5
    )


def test_checkpointing_activations_changes_nothing(base, tmp_path, silent):
    batch = write_random_batch(tmp_path / "batch.safetensors")
    results = []
    for on in (False, True):
        session = Session(open_settings(base), silent)
        session.step(step_settings(batch, tmp_path / str(on), gradientCheckpointing=on), silent)
        results.append(weights(session))
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*results, strict=True))


def test_learning_raises_the_probability_of_what_was_rewarded(session, tmp_path, silent):
    batch = write_random_batch(tmp_path / "batch.safetensors", advantage=1.0)
    mismatches = [session.step(step_settings(batch, tmp_path / "new"), silent)["mismatchKl"]["k1"] for _ in range(8)]
    # k1 is rollout minus learner: it falls as the learner finds the tokens likelier.
    assert mismatches[-1] < mismatches[0] - 0.1


def test_several_epochs_keep_the_policy_before_the_first_as_old(session, tmp_path, silent):
    batch = write_random_batch(tmp_path / "batch.safetensors")
    metrics = session.step(step_settings(batch, tmp_path / "new", epochs=4, learningRate=0.05), silent)
    assert all(share > 0 for share in metrics["clip"].values())


def test_kl_to_the_base_is_zero_at_first_and_grows(session, tmp_path, silent):
    batch = write_random_batch(tmp_path / "batch.safetensors")
    kl = [session.step(step_settings(batch, tmp_path / "new", klCoefficient=0.1), silent)["klBase"] for _ in range(3)]
    assert kl[0] == pytest.approx(0, abs=1e-9)
    assert kl[2] > 1e-6


@pytest.mark.parametrize("architecture", ["qwen2", "phi3", "lfm2"])
def test_a_resumed_learner_goes_on_bit_for_bit(architecture, tmp_path, silent):
    base = write_gguf(make_model(architecture), tmp_path / "model.gguf")
    lora = {"rank": 4, "alpha": 8, "targets": list(LINEAR_LAYERS)}
    batches = [write_random_batch(tmp_path / f"{seed}.safetensors", seed=seed) for seed in range(3)]
    straight = Session(open_settings(base, lora=lora), silent)
    for number, batch in enumerate(batches):
        straight.step(step_settings(batch, tmp_path / f"straight{number}"), silent)

    first = Session(open_settings(base, lora=lora), silent)
    first.step(step_settings(batches[0], tmp_path / "a"), silent)
    second = Session(open_settings(base, lora=lora, seed=99, resume=str(tmp_path / "a")), silent)
    assert second.info["updates"] == 1
    # No update draws a number, but imitation does.
    saved = torch.load(tmp_path / "a" / "optimizer.pt", weights_only=True)
    assert torch.equal(torch.get_rng_state(), saved["random"])
    for number, batch in enumerate(batches[1:]):
        second.step(step_settings(batch, tmp_path / f"b{number}"), silent)
    assert same(weights(second), weights(straight))


@pytest.mark.parametrize("epochs", [1, 3])
def test_a_loss_that_is_not_finite_is_skipped_and_leaves_everything_as_it_was(session, tmp_path, silent, epochs):
    good = write_random_batch(tmp_path / "good.safetensors")
    session.step(step_settings(good, tmp_path / "0001"), silent)
    before, state = weights(session), session._optimizer.state()
    bad = write_random_batch(tmp_path / "bad.safetensors", advantage=math.inf)
    metrics = session.step(step_settings(bad, tmp_path / "0002", epochs=epochs), silent)
    assert not metrics["applied"] and metrics["skipped"] == "loss" and metrics["loss"] is None
    assert same(weights(session), before)
    assert session._optimizer.updates == 1
    after = session._optimizer.state()["adam"]["state"]
    assert all(torch.equal(after[key]["exp_avg"], value["exp_avg"]) for key, value in state["adam"]["state"].items())
    assert not (tmp_path / "0002").exists()
    assert session.step(step_settings(good, tmp_path / "0003"), silent)["applied"]


def test_an_update_that_breaks_in_the_middle_leaves_everything_as_it_was(session, tmp_path, silent):
    batch = write_random_batch(tmp_path / "batch.safetensors")
    before = weights(session)

    def out_of_memory(phase, done, total):
        if done == 3:
            raise MemoryError

    with pytest.raises(MemoryError):
        session.step(step_settings(batch, tmp_path / "0001", epochs=4), out_of_memory)
    assert same(weights(session), before)
    assert session._optimizer.updates == 0


def test_a_checkpoint_that_the_disk_does_not_take_is_refused_in_one_line(session, tmp_path, silent):
    batch = write_random_batch(tmp_path / "batch.safetensors")
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(Refused, match=r"cannot be written to .*is the disk full") as refused:
        session.step(step_settings(batch, tmp_path / "file" / "0001"), silent)
    assert "\n" not in str(refused.value)


def test_a_batch_without_advantages_is_refused(session, tmp_path, silent):
    batch = write_random_batch(tmp_path / "batch.safetensors", advantage=0.0)
    with pytest.raises(Refused, match="nothing to learn"):
        session.step(step_settings(batch, tmp_path / "0001"), silent)


def test_a_batch_of_another_model_is_refused(tmp_path, silent):
    small = write_gguf(make_model("qwen2", vocab_size=64), tmp_path / "small.gguf")
    batch = write_random_batch(tmp_path / "batch.safetensors")
    with pytest.raises(Refused, match="the model has 64 tokens"):
        Session(open_settings(small), silent).step(step_settings(batch, tmp_path / "0001"), silent)


@pytest.mark.parametrize(
    ("lora", "message"),
    [
        ({"rank": 8, "alpha": 8, "targets": ["q_proj"]}, "rank"),
        ({"rank": 4, "alpha": 16, "targets": ["q_proj"]}, "alpha"),
        ({"rank": 4, "alpha": 8, "targets": ["q_proj", "k_proj"]}, "target layers"),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused(base, tmp_path, silent, lora, message):
    batch = write_random_batch(tmp_path / "batch.safetensors")
    settings = {"lora": {"rank": 4, "alpha": 8, "targets": ["q_proj"]}}
    Session(open_settings(base, **settings), silent).step(step_settings(batch, tmp_path / "0001"), silent)
    with pytest.raises(Refused, match=message):
        Session(open_settings(base, lora=lora, resume=str(tmp_path / "0001")), silent)


def test_an_adapter_of_another_shape_or_a_broken_checkpoint_is_refused(base, session, tmp_path, silent):
    batch = write_random_batch(tmp_path / "batch.safetensors")
    session.step(step_settings(batch, tmp_path / "0001"), silent)
    wide = write_gguf(make_model("qwen2", intermediate_size=128), tmp_path / "wide.gguf")
    with pytest.raises(Refused, match="another model"):
        Session(open_settings(wide, resume=str(tmp_path / "0001")), silent)
    (tmp_path / "0001" / "optimizer.pt").write_bytes(b"no")
    with pytest.raises(Refused, match="cannot be read"):
        Session(open_settings(base, resume=str(tmp_path / "0001")), silent)


def test_supervised_learning_lowers_the_loss(session, tmp_path, silent):
    batch = write_random_batch(tmp_path / "batch.safetensors", advantage=1.0)
    settings = sft_settings(batch, tmp_path / "sft", epochs=8, updateTrajectories=4)
    metrics = session.sft(settings, silent)
    assert metrics["updates"] == 24 and metrics["skipped"] == 0
    assert metrics["loss"]["last"] < metrics["loss"]["first"] - 0.3


@pytest.mark.parametrize("architecture", ["qwen2", "llama"])
def test_all_weights_can_be_trained_and_are_written_as_a_model(tmp_path, silent, architecture):
    base = write_gguf(make_model(architecture), tmp_path / "model.gguf")
    session = Session(open_settings(base, lora=None), silent)
    batch = write_random_batch(tmp_path / "batch.safetensors", advantage=1.0)
    settings = sft_settings(batch, tmp_path / "sft", epochs=4, updateTrajectories=4)
    metrics = session.sft(settings, silent)
    assert metrics["loss"]["last"] < metrics["loss"]["first"] - 0.3

    again = Session(open_settings(tmp_path / "sft" / "model.gguf"), silent)
    trained = dict(session._backend.model.named_parameters())
    for name, parameter in again._backend.model.base_model.model.named_parameters():
        name = name.replace(".base_layer", "")
        if "lora_" not in name:
            assert torch.allclose(parameter, trained[name], atol=2e-3), name
    fields = gguf.GGUFReader(tmp_path / "sft" / "model.gguf").fields
    assert fields["tokenizer.chat_template"].contents() == "{{ messages }}"
    assert len(fields["tokenizer.ggml.tokens"].contents()) == 96
