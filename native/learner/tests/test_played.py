"""Which of two policies played a batch, by the slope of its tokens' log-probabilities."""

import pytest
import torch
from batches import VOCABULARY, open_settings, random_batch, step_settings, write_batch, write_random_batch
from learner import head, played
from learner.batch import read_batch
from learner.checkpoint import earlier_policy
from learner.importance import effective_sample_size
from learner.packing import plan
from learner.session import Session

from models import make_model, write_gguf


def policies(tokens, change, seed=0):
    """Log-probabilities of two policies, and the heavy-tailed rounding of an engine; all grow with a token's 1 - p."""
    generator = torch.Generator().manual_seed(seed)
    p = torch.log(torch.rand(tokens, generator=generator) * 0.9 + 0.05)
    unsure = 1 - p.exp()
    normal = torch.randn(3, tokens, generator=generator)
    rounding = 1e-3 * unsure * normal[0] / normal[1].abs()
    return p + change * unsure * normal[2], p, rounding


@pytest.mark.parametrize("change", [1e-3, 1e-2, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_it_is_one_for_the_current_policy_and_zero_for_the_earlier_one(change, seed):
    c, p, rounding = policies(1000, change, seed)
    right, stale = played.slope(c + rounding, c, p), played.slope(p + rounding, c, p)
    assert right and stale and right.error < 0.12 and stale.error < 0.12
    assert abs(right.value - 1) < 4 * right.error and abs(stale.value) < 4 * stale.error


@pytest.mark.parametrize("seed", range(5))
def test_of_a_change_far_below_rounding_it_says_that_it_cannot_tell(seed):
    c, p, rounding = policies(1000, 1e-5, seed)
    one = played.slope(p + rounding, c, p)
    assert one and one.error > 1


@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0])
def test_whatever_part_of_its_rounding_two_policies_share_the_one_that_played_is_within_the_error(shared):
    normal = torch.randn(4, 4000, generator=torch.Generator().manual_seed(1))
    change, both, *own = normal[0], 0.4 * shared**0.5 * normal[1], *(0.4 * (1 - shared) ** 0.5 * normal[2:])
    # Tokens of which both policies are unsure.
    current, earlier = -8 + change + both + own[0], -8 + both + own[1]
    told = played.slope(-8 + change, current, earlier).without_rounding(0.4**2)
    assert abs(told.value - 1) < 4 * told.error and told.error < 0.5
    # Rounding that is little beside the change leaves the error as it is.
    assert told.error > 0.1 > played.slope(-8 + change, current, earlier).without_rounding(1e-4).error


def test_a_token_of_large_leverage_alone_tells_nothing():
    c, p, rounding = policies(100, 1e-5)
    c[0] -= 0.1
    rounding[0] = 0.05
    one = played.slope(p + rounding, c, p)
    assert one and one.error > 0.5


def test_few_tokens_need_to_tell_more_than_many():
    c, p, rounding = policies(1000, 1.0)
    few, many = (played.slope((c + rounding)[:n], c[:n], p[:n]) for n in (8, 1000))
    assert few.error > 10 * many.error


def test_tokens_that_both_policies_are_sure_of_are_left_out():
    sure = torch.full((100,), -1e-3)
    assert played.slope(sure, sure, sure - 1e-4) is None
    c, p, rounding = policies(200, 1e-2)
    alone = played.slope(c + rounding, c, p)
    assert alone and alone.tokens == 200
    with_sure = [torch.cat((one, sure)) for one in (c + rounding, c, p)]
    assert played.slope(*with_sure) == alone
    assert played.slope(c[:7], c[:7], p[:7]) is None
    assert played.slope(c, p, p) is None
    broken = c.clone()
    broken[3] = float("nan")
    assert played.slope(broken, c, p).tokens == 199


@pytest.fixture
def base(tmp_path):
    return write_gguf(make_model("qwen2"), tmp_path / "model.gguf")


@torch.no_grad()
def scored(session, batch):
    backend, logprobs = session._backend, torch.empty(batch.sampled_tokens)
    for pack in plan(batch, 4096):
        values = head.score(backend.hidden(pack), backend.output_weight(), pack.sources, pack.targets, 1.0).logprobs
        logprobs[pack.slots] = values
    return logprobs


def played_with(path, batch, logprobs):
    """The batch with the log-probabilities of its sampled tokens."""
    rollouts, at = [], 0
    for one in batch.sequences:
        values = torch.zeros(len(one.ids))
        count = int(one.sampled.sum())
        values[one.sampled] = logprobs[at : at + count]
        at += count
        advantage = batch.advantages[one.first_slot].item()
        rollouts.append((one.group, one.prompt, one.ids, one.sampled, values, advantage))
    return write_batch(path, rollouts)


@pytest.mark.parametrize("rate", [1e-5, 1e-2])
def test_an_update_says_which_policy_played_its_batch_and_leaves_the_weights_alone(base, tmp_path, silent, rate):
    session = Session(open_settings(base), silent)
    batch = read_batch(write_random_batch(tmp_path / "one", groups=12, own=(20, 60)), VOCABULARY)
    before = [scored(session, batch)]
    for number in (1, 2):
        settings = step_settings(tmp_path / "one", tmp_path / f"000{number}", learningRate=rate)
        assert session.step(settings, silent)["played"] is None
        before.append(scored(session, batch))
    rounding = 1e-2 * rate * torch.randn(batch.sampled_tokens, generator=torch.Generator().manual_seed(1))
    weights = [parameter.detach().clone() for parameter in session._backend.trainable()]

    def slope(policy, earlier):
        file = played_with(tmp_path / "two", batch, before[policy] + rounding)
        asked = step_settings(file, tmp_path / "draft", learningRate=0.0, earlier={"checkpoint": earlier})
        return session.step(asked, silent)["played"]

    for earlier, number in ((None, 0), (str(tmp_path / "0001"), 1)):
        right, stale = slope(2, earlier), slope(number, earlier)
        assert right["slope"] == pytest.approx(1, abs=0.2) and right["error"] < 0.1
        assert stale["slope"] == pytest.approx(0, abs=0.2) and stale["error"] < 0.1
        assert {key: right[key] for key in ("slope", "error", "tokens")} == right["previous"]
    # What lags by one update is on the way from the policy of two updates before, and is the previous one itself.
    file = played_with(tmp_path / "two", batch, before[1] + rounding)
    policies = {"earlier": {"checkpoint": None}, "previous": {"checkpoint": str(tmp_path / "0001")}}
    lags = session.step(step_settings(file, tmp_path / "draft", learningRate=0.0, **policies), silent)["played"]
    assert 0.1 < lags["slope"] < 0.9 and lags["previous"]["slope"] == pytest.approx(0, abs=0.2)
    for parameter, weight in zip(session._backend.trainable(), weights, strict=True):
        assert torch.equal(parameter, weight)


def test_what_an_older_policy_played_is_compared_with_that_one_and_weighted_by_the_ratio_to_it(base, tmp_path, silent):
    """The weights are those of the loss's formula with the log-probabilities of the policy that played."""
    session = Session(open_settings(base), silent)
    batch = read_batch(write_random_batch(tmp_path / "one", groups=12, own=(20, 60)), VOCABULARY)
    policies = [scored(session, batch)]
    for number in (1, 2):
        session.step(step_settings(tmp_path / "one", tmp_path / f"000{number}", learningRate=1e-2), silent)
        policies.append(scored(session, batch))
    rounding = 1e-4 * torch.randn(batch.sampled_tokens, generator=torch.Generator().manual_seed(1))
    file = played_with(tmp_path / "two", batch, policies[1] + rounding)
    moved = (policies[2] - policies[1]).abs().mean().item()
    assert moved > 100 * rounding.abs().mean().item()
    importance = {"mode": "token-truncate", "low": 0, "high": 1.1}

    def step(into, **asked):
        own = Session(open_settings(base, resume=str(tmp_path / "0002")), silent)
        settings = step_settings(file, tmp_path / into, learningRate=1e-3, importance=importance, **asked)
        return own.step(settings, silent), scored(own, batch)

    by = {"playedBy": {"checkpoint": str(tmp_path / "0001")}, "earlier": {"checkpoint": None}}
    told, after = step("told", **by)
    untold, same = step("untold")
    assert told["mismatch"]["mean"] == pytest.approx(rounding.abs().mean().item(), rel=0.3)
    assert untold["mismatch"]["mean"] == pytest.approx(moved, rel=1e-2) and untold["drift"] is None
    drift = told["drift"]
    assert drift["mean"] == pytest.approx(moved, rel=0.3) and drift["kl"] > 0
    assert 0 < drift["n"] <= played.SHARE * batch.tokens
    assert told["played"]["slope"] == pytest.approx(1, abs=0.05)
    # Nothing else of the update depends on who is said to have played: the tokens' log-probabilities say it.
    assert torch.equal(after, same)
    ratio = (policies[2] - batch_of(file).rollout).exp()
    for metrics in (told, untold):
        assert metrics["importance"]["truncated"] == pytest.approx((ratio > 1.1).double().mean().item(), abs=1e-3)
        assert metrics["importance"]["ess"] == pytest.approx(
            (ratio.sum().square() / (len(ratio) * ratio.square().sum())).item(), rel=1e-3
        )


def batch_of(file):
    return read_batch(file, VOCABULARY)


class Counting:
    """A backend that counts the positions it computes, and fails where it should not be asked."""

    def __init__(self, backend):
        self.shares, self.device, self._backend = backend.shares, backend.device, backend
        self.positions = self.rows = 0

    def hidden(self, pack):
        self.positions += len(pack.ids)
        self.rows += 1
        return self._backend.hidden(pack)

    def output_weight(self):
        return self._backend.output_weight()


def test_few_rollouts_are_computed_where_they_tell_and_never_more_than_a_share(base, tmp_path, silent):
    session = Session(open_settings(base), silent)
    batch = random_batch(tmp_path, groups=16, own=(20, 60))
    start = scored(session, batch)
    session.step(step_settings(tmp_path / "batch.safetensors", tmp_path / "0001", learningRate=1e-2), silent)
    batch.rollout.copy_(scored(session, batch))
    earlier = earlier_policy(None, session._backend)

    def computed():
        counting = Counting(session._backend)
        (slope,), _ = played.played_by(counting, batch, 4096, [earlier])
        # Once with each policy.
        return slope, counting.positions / 2 / batch.tokens

    clear, part = computed()
    assert clear.error < played.ENOUGH and part < 0.06
    noise = torch.randn(batch.sampled_tokens, generator=torch.Generator().manual_seed(0))
    batch.rollout.add_(50 * (batch.rollout - start).abs().mean() * noise)
    unclear, part = computed()
    assert unclear.error > played.ENOUGH and 0.15 < part < played.SHARE


def test_on_a_card_rollouts_that_fill_a_row_are_computed_at_once(base, tmp_path, silent):
    session = Session(open_settings(base), silent)
    batch = random_batch(tmp_path, groups=16, own=(20, 60))
    session.step(step_settings(tmp_path / "batch.safetensors", tmp_path / "0001", learningRate=1e-2), silent)
    # Nothing tells who played: as many as the share allows are computed.
    batch.rollout.copy_(-6 * torch.rand(batch.sampled_tokens, generator=torch.Generator().manual_seed(0)))
    budget = batch.tokens // 8
    rows, slopes = {}, {}
    for kind in ("cpu", "cuda"):
        counting = Counting(session._backend)
        counting.device = torch.device(kind)
        (slopes[kind],), _ = played.played_by(counting, batch, budget, [earlier_policy(None, session._backend)])
        rows[kind] = counting.rows
    # Half of the batch at most, in rows of an eighth, once with each policy.
    assert rows["cuda"] <= 2 * 2 * played.SHARE * 8 < rows["cpu"]
    assert slopes["cuda"].tokens >= 0.8 * slopes["cpu"].tokens


def test_tokens_with_the_same_tokens_before_them_count_once(base, tmp_path, silent):
    session = Session(open_settings(base), silent)
    one = random_batch(tmp_path, groups=1, size=1, own=(60, 60)).sequences[0]
    rollout = (0, one.prompt, one.ids, one.sampled, torch.zeros(len(one.ids)), 1.0)
    file = write_batch(tmp_path / "same", [rollout] * 8)
    batch = read_batch(file, VOCABULARY)
    session.step(step_settings(file, tmp_path / "0001"), silent)
    batch.rollout.copy_(scored(session, batch)).add_(torch.randn(batch.sampled_tokens))
    (slope,), _ = played.played_by(session._backend, batch, 4096, [earlier_policy(None, session._backend)])
    assert slope.tokens == int(one.sampled.sum())


def test_the_effective_sample_size_is_that_of_the_ratios():
    old, rollout = torch.log(torch.tensor([0.5, 0.2, 0.4])), torch.log(torch.tensor([0.5, 0.4, 0.2]))
    assert effective_sample_size(old, rollout) == pytest.approx((1 + 0.5 + 2) ** 2 / (3 * (1 + 0.25 + 4)), rel=1e-6)
    assert effective_sample_size(old - 900, old) == pytest.approx(1, abs=1e-6)
    assert effective_sample_size(torch.tensor([0.0, 0.0, 1000.0]), torch.zeros(3)) == pytest.approx(1 / 3)
