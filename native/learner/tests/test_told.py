"""What the engine tells of unlikely tokens, of few tokens and of all of them, beside what the learner finds."""

import pytest
import torch
from batches import open_settings, step_settings, write_random_batch
from learner import head
from learner.batch import Batch, BatchSequence
from learner.errors import Refused
from learner.session import Session
from learner.told import check_drawn, check_told, random_of, uniforms

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
        trajectories.append(BatchSequence(ids, sampled, number, 1, number * each, number))
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
    one = batch_of(told).sequences[0]
    trajectories = [BatchSequence(one.ids, one.sampled, 0, 1, 40 * number, number) for number in range(16)]
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


def decimals(count):
    return lambda told: (told * 10**count).round() / 10**count


def halves(dtype):
    return lambda told: told.to(dtype).float()


@pytest.mark.parametrize("rounded", [*map(decimals, (1, 2, 4)), *map(halves, (torch.float16, torch.bfloat16))])
def test_rounded_log_probabilities_are_refused(rounded):
    for seed in range(20):
        told, own = drawn(100, 5e-3, seed)
        with pytest.raises(Refused, match=r"log-probabilities are rounded|told one log-probability"):
            check_told(batch_of(rounded(told)), own, "f16", "f16")


def test_few_log_probabilities_and_certain_ones_may_be_round():
    told = torch.tensor([-0.5, -1.25, -2.0] + [-1e-7 * number for number in range(60)])
    check_told(batch_of(told), told, "f32", "f16")


def by_inversion(count, rounding, seed, sharp=2.0, vocabulary=300, random=lambda uniform: uniform):
    """Tokens that an engine drew by the random numbers of a seed: what check_drawn is given of them."""
    generator = torch.Generator().manual_seed(seed)
    logits = sharp * torch.randn(count, vocabulary, generator=generator)
    places = torch.arange(5, 5 + count)
    uniform = uniforms(seed, places)
    engine = logits.double().softmax(-1)
    ids = torch.searchsorted(engine.cumsum(-1), random(uniform)[:, None], right=True).clamp(max=vocabulary - 1)
    learner = (logits + rounding * torch.randn(logits.shape, generator=generator)).double().softmax(-1)
    told, own = (one.log().gather(1, ids)[:, 0] for one in (engine, learner))
    upto = learner.cumsum(-1).gather(1, ids)[:, 0]
    return uniform, upto - own.exp(), upto, told, own


def test_the_random_numbers_are_the_engines():
    """Of native/engine/sampling.cc, by whole numbers of any size."""
    most, golden = (1 << 64) - 1, 0x9E3779B97F4A7C15

    def mixed(x):
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & most
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & most
        return x ^ (x >> 31)

    for seed in (0, 7, 2**53 - 1):
        wanted = [
            (mixed((mixed((seed + golden) & most) + golden * (at + 1)) & most) >> 11) * 2.0**-53 for at in range(40)
        ]
        assert uniforms(seed, torch.arange(40)).tolist() == wanted


@pytest.mark.parametrize("sharp", [0.1, 2.0, 8.0])
@pytest.mark.parametrize("rounding", [1e-5, 1e-3, 0.01, 0.1])
def test_tokens_that_their_random_numbers_give_pass(sharp, rounding):
    for seed in range(100):
        check_drawn(*by_inversion(64, rounding, seed, sharp))


def next_ones(uniform):
    return uniform.roll(-1)


def doubled(uniform):
    return uniform.reshape(-1, 2)[:, :1].expand(-1, 2).flatten()


def tailless(uniform):
    return 0.95 * uniform


@pytest.mark.parametrize("random", [next_ones, doubled, tailless])
@pytest.mark.parametrize("rounding", [1e-5, 1e-3, 0.01])
def test_tokens_of_other_random_numbers_are_refused(random, rounding):
    for seed in range(20):
        with pytest.raises(Refused, match="tokens are not those that the random numbers of their seed give"):
            check_drawn(*by_inversion(64, rounding, seed, random=random))


def test_the_bounds_of_a_token_are_sums_of_the_distribution():
    generator = torch.Generator().manual_seed(0)
    hidden, weight = torch.randn(5, 16, generator=generator), torch.randn(40, 16, generator=generator)
    sources, targets = torch.tensor([0, 2, 2, 4]), torch.tensor([39, 0, 7, 20])
    sums = (hidden @ weight.T / 0.7).double().softmax(-1).cumsum(-1)[sources]
    upto = sums.gather(1, targets[:, None])[:, 0]
    below = torch.cat((torch.zeros(len(sums), 1), sums), 1).gather(1, targets[:, None])[:, 0]
    found = head.cumulated(hidden, weight, sources, targets, 0.7)
    for one, wanted in zip(found, (below, upto), strict=True):
        assert torch.allclose(one.double(), wanted, atol=1e-5)


def test_only_tokens_from_the_whole_distribution_by_a_known_seed_have_random_numbers():
    ids, sampled = torch.arange(6), torch.tensor([0, 0, 1, 1, 0, 1]).bool()
    allowed = torch.tensor([-1, -1, -1, 3, -1, -1])
    own = BatchSequence(ids, sampled, 0, 2, 0, 0, allowed, 77)
    other = BatchSequence(ids, sampled, 0, 2, 3, 1)
    owner = torch.tensor([0, 0, 0, 1, 1, 1])
    found = random_of(Batch([own, other], torch.zeros(6), torch.ones(6), owner, owner, 1.0))
    first, _, third = uniforms(77, torch.tensor([2, 3, 5])).tolist()
    assert found.nan_to_num(9).tolist() == [first, 9, third, 9, 9, 9]
