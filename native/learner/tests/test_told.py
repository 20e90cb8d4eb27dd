"""What the engine tells of unlikely tokens, of few tokens and of all of them, beside what the learner finds."""

import pytest
import torch
from batches import open_settings, step_settings, write_random_batch
from learner.batch import Batch, Trajectory
from learner.errors import Refused
from learner.session import Session
from learner.told import check_told

from models import make_model, write_gguf

ROUNDING = {"f32": 1e-3, "f16": 5e-3, "bf16": 0.05}
"""Of logits."""


def drawn(count, rounding, seed=0, sharp=3.0):
    """Log-probabilities of tokens that an engine drew, as the engine has them and as the learner has them."""
    generator = torch.Generator().manual_seed(seed)
    logits = sharp * torch.randn(count, 64, generator=generator)
    engine = logits.log_softmax(-1)
    learner = (logits + rounding * torch.randn(logits.shape, generator=generator)).log_softmax(-1)
    ids = torch.multinomial(engine.exp(), 1, generator=generator)
    return engine.gather(1, ids)[:, 0], learner.gather(1, ids)[:, 0]


def batch_of(told, each=50):
    """A batch of sequences of random tokens, each of which continues another one's."""
    trajectories = []
    generator = torch.Generator().manual_seed(1)
    for number, part in enumerate(told.split(each)):
        ids = torch.randint(1000, (len(part) + 1,), generator=generator)
        sampled = torch.arange(len(ids)) > 0
        trajectories.append(Trajectory(ids, sampled, number, 1, number * each, number))
    owner = torch.arange(len(told)) // each
    return Batch(trajectories, told, torch.ones(len(told)), owner, owner, 1.0)


@pytest.mark.parametrize("precision", ROUNDING)
@pytest.mark.parametrize("sharp", [0.5, 3.0, 12.0])
def test_log_probabilities_that_rounding_alone_moves_pass(precision, sharp):
    for seed in range(60):
        told, own = drawn((20, 200, 2000)[seed % 3], ROUNDING[precision], seed, sharp)
        check_told(batch_of(told), own, precision, "f16")


def floor(told):
    return told.clamp(min=-3)


def ceiling(told):
    return told.where(told < -0.3, 0.0)


def missing(told):
    return told.where(torch.arange(len(told)) % 40 > 0, -1.0)


def halved(told):
    return told.where(told > -3, told / 2)


def shifted(told):
    return told - 0.001


def coarse(told):
    return (told / 0.01).round() * 0.01


FAULTS = {
    "raised to a floor": (floor, r"one log-probability, -3, of \d+ tokens, to which the learner gives -\d"),
    "of likely tokens raised to 0": (ceiling, "of tokens from -1 to 0 are not the learner's"),
    "another value for some": (missing, "one log-probability, -1, of 50 tokens"),
    "of unlikely tokens halved": (halved, "of tokens below -3 are not the learner's"),
    "all moved by less than rounding": (shifted, "the mean of the ratios of .* standard errors from 1"),
    "of few digits": (coarse, r"one log-probability, -0\.\d+, of \d+ tokens"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_log_probabilities_of_a_size_that_are_told_wrongly_are_refused(fault):
    change, words = FAULTS[fault]
    told, own = drawn(2000, ROUNDING["f32"])
    with pytest.raises(Refused, match=words):
        check_told(batch_of(change(told)), own, "f32", "f16")


def test_few_unlikely_tokens_among_certain_ones_suffice():
    generator = torch.Generator().manual_seed(0)
    own = torch.cat((-1e-4 * torch.rand(900, generator=generator), -5 - torch.rand(5, generator=generator)))
    check_told(batch_of(own + 1e-6), own, "f32", "f16")
    with pytest.raises(Refused, match="tokens below -3 are not the learner's: 5 of 5 are apart by far"):
        check_told(batch_of(floor(own)), own, "f32", "f16")


def test_rollouts_that_repeat_each_other_count_once():
    told, own = drawn(40, ROUNDING["f32"])
    own[7] -= 0.5
    one = batch_of(told).trajectories[0]
    trajectories = [Trajectory(one.ids, one.sampled, 0, 1, 40 * number, number) for number in range(16)]
    owner = torch.arange(16).repeat_interleave(40)
    repeated = Batch(trajectories, told.repeat(16), torch.ones(640), owner, owner, 1.0)
    check_told(repeated, own.repeat(16), "f32", "f16")


def test_tokens_that_the_learner_does_not_know_are_left_out():
    told, own = drawn(300, ROUNDING["f32"])
    check_told(batch_of(floor(told)), own.where(told > -3, torch.nan), "f32", "f16")


def test_a_step_of_log_probabilities_with_a_floor_is_refused(tmp_path, silent):
    write_gguf(make_model("qwen2"), tmp_path / "model.gguf")
    session = Session(open_settings(tmp_path / "model.gguf"), silent)
    batch = write_random_batch(tmp_path / "batch", groups=4, size=8)
    before = [one.detach().clone() for one in session._backend.trainable()]
    session.step(step_settings(batch, tmp_path / "0001"), silent)
    with pytest.raises(Refused, match="one log-probability, -2, of"):
        low = write_random_batch(tmp_path / "low", groups=4, size=8, told=lambda logprobs: logprobs.clamp(min=-2))
        session.step(step_settings(low, tmp_path / "0002"), silent)
    assert not (tmp_path / "0002").exists()
    assert any(not torch.equal(one, other) for one, other in zip(before, session._backend.trainable(), strict=True))
