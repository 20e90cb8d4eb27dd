"""Packing and chunking are exact: the same log-probabilities and gradients as each trajectory computed alone."""

import functools
import itertools
from dataclasses import replace

import pytest
import torch
from batches import OBJECTIVES, open_settings, random_batch, restricted_tree, tree_batch
from learner import blocks, convolution, head, loss, packing, update_check
from learner.attention import Layout
from learner.backend import LINEAR_LAYERS, PeftBackend
from learner.batch import Batch
from learner.errors import Refused
from learner.flex import padded
from learner.objective import Importance, LossSettings, Objective
from learner.packing import plan
from learner.request import read

from models import make_model, write_gguf

SETTINGS = LossSettings(read(Objective, OBJECTIVES["dapo"]), Importance("token-truncate", 0.0, 2.0), 0.0)


def token_losses(batch, new, old, slots):
    tokens = loss.Tokens(new, old, batch.rollout[slots], batch.advantages[slots], batch.owner[slots])
    return loss.policy_loss(tokens, SETTINGS)


def plain(backend, batch, temperature):
    """The textbook way: every trajectory alone, all its logits, autograd through everything. S log-probabilities."""
    model = backend.model
    model.config._attn_implementation = "eager"
    parts = []
    for trajectory in batch.sequences:
        logits = model(input_ids=trajectory.ids[None], use_cache=False).logits[0, :-1].float() / temperature
        if trajectory.allowed is not None:
            logits = logits.masked_fill(refused(batch, trajectory.allowed[1:]), float("-inf"))
        logprobs = logits.log_softmax(-1).gather(1, trajectory.ids[1:, None])[:, 0]
        parts.append(logprobs[trajectory.sampled[1:]])
    model.config._attn_implementation = "hone_packed"
    return torch.cat(parts)


def refused(batch, numbers):
    """[T, vocabulary]: whether a token could not come, for the numbers [T] of the positions' sets."""
    vocabulary = 8 * batch.sets.shape[1]
    sets = [
        [not int(batch.sets[number, token // 8]) >> token % 8 & 1 for token in range(vocabulary)] for number in range(5)
    ]
    return torch.tensor([sets[number] if number >= 0 else [False] * vocabulary for number in numbers.tolist()])


def gradients(backend):
    return {
        name: parameter.grad.clone()
        for name, parameter in backend.model.named_parameters()
        if parameter.grad is not None
    }


FAMILIES = ["qwen2", "gemma3", "lfm2"]
"""Full attention, windows of it, and convolutions. The others differ in norms and biases."""
OTHERS = ["qwen3", "llama", "smollm3", "granite", "olmo2", "phi3"]


@pytest.fixture(scope="module", params=[*FAMILIES, *(pytest.param(one, marks=pytest.mark.full) for one in OTHERS)])
def backend(request, tmp_path_factory):
    """Once for all tests of a family, which leave its weights as they are."""
    file = write_gguf(make_model(request.param), tmp_path_factory.mktemp(request.param) / "model.gguf")
    torch.manual_seed(0)
    # Some of the targets are one layer in Phi 3, and in LFM2's convolutions.
    all_of_them = {"lora": {"rank": 4, "alpha": 8, "targets": list(LINEAR_LAYERS)}}
    more = all_of_them if request.param in ("phi3", "lfm2") else {}
    backend = PeftBackend(open_settings(file, **more), lambda phase, done, total: None)
    with torch.no_grad():
        for parameter in backend.trainable():
            parameter.normal_(std=0.1)
    return backend


BLOCKS = {"separate": (0, 0), "one": (0, 10**9), "chosen": (blocks.KEY, 100)}
"""(KEY, CALL): each segment attends alone, the whole row in one call, or short segments together."""


@pytest.mark.parametrize(
    ("make", "budget", "temperature", "together"),
    [
        (random_batch, 40, 1.0, "chosen"),
        (random_batch, 100, 0.7, "separate"),
        (random_batch, 4096, 1.0, "one"),
        (tree_batch, 20, 0.7, "separate"),
        (tree_batch, 60, 1.0, "chosen"),
        (tree_batch, 60, 0.7, "one"),
        (tree_batch, 4096, 0.7, "chosen"),
        (tree_batch, 4096, 1.0, "separate"),
        (tree_batch, 4096, 1.0, "one"),
        (restricted_tree, 60, 0.7, "chosen"),
        (restricted_tree, 4096, 1.0, "chosen"),
    ],
)
def test_packed_rows_give_the_loss_and_gradients_of_the_plain_path(
    backend, tmp_path, monkeypatch, make, budget, temperature, together
):
    for name, value in zip(("KEY", "CALL"), BLOCKS[together], strict=True):
        monkeypatch.setattr(blocks, name, value)
    batch = make(tmp_path, temperature=temperature)
    backend.model.zero_grad()
    new = plain(backend, batch, temperature)
    expected = token_losses(batch, new, new.detach(), slice(None)).sum() / len(new)
    expected.backward()
    wanted = gradients(backend)
    backend.model.zero_grad()

    logprobs = torch.empty(len(new))
    packs = plan(batch, budget)
    for pack in packs:
        hidden = backend.hidden(pack)

        def slope(scored, slots=pack.slots):
            with torch.enable_grad():
                leaf = scored.clone().requires_grad_(True)
                value = token_losses(batch, leaf, scored, slots)
                (derivative,) = torch.autograd.grad(value.sum() / len(new), leaf)
            return derivative

        scores = head.score(
            hidden.detach(),
            backend.output_weight(),
            pack.sources,
            pack.targets,
            temperature,
            slope,
            chunk_bytes=96 * 4 * 16,
            allowed=head.allowed_of(pack, batch, backend.device),
        )
        hidden.backward(scores.gradient)
        logprobs[pack.slots] = scores.logprobs

    assert torch.allclose(logprobs, new, atol=1e-5)
    got = gradients(backend)
    assert got.keys() == wanted.keys()
    for name in wanted:
        assert torch.allclose(got[name], wanted[name], atol=1e-5, rtol=1e-4), name
    assert max(wanted[name].abs().max() for name in wanted) > 1e-3


def test_rows_keep_the_set_of_each_token_also_where_a_position_predicts_from_several(tmp_path):
    batch = restricted_tree(tmp_path)
    sets = torch.cat([one.allowed[one.sampled] for one in batch.sequences])
    several = 0
    for pack in plan(batch, 4096):
        assert torch.equal(pack.allowed[pack.sources], sets[pack.slots])
        several += len(pack.predicting) - len(set(pack.predicting.tolist()))
    assert several > 0
    update_check.check_rows(plan(batch, 60), batch.sequences)
    (pack,) = plan(batch, 4096)
    with pytest.raises(Refused, match="allowed tokens than its own"):
        update_check.check_rows([replace(pack, allowed=pack.allowed.roll(1))], batch.sequences)


def prefixes(trajectories):
    """All that must be computed for their sampled tokens: every prefix that precedes one, once."""
    known = set()
    for one in trajectories:
        ids, last = one.ids.tolist(), int(one.sampled.nonzero().max())
        known |= {tuple(ids[:length]) for length in range(1, last + 1)}
    return known


def paths(pack, window=None):
    """The ids that each position sees by the rule k <= q < ends[k], in order: of them the last `window`."""
    places = torch.arange(len(pack.ids))
    seen = [tuple(pack.ids[(places <= query) & (query < pack.ends)].tolist()) for query in places]
    return seen if window is None else [path[-window:] for path in seen]


@pytest.mark.parametrize("make", [random_batch, tree_batch])
def test_convolutions_read_what_is_before_a_position_in_its_trajectory(tmp_path, make):
    (pack,) = plan(make(tmp_path), 4096)
    row = padded(pack)
    read, places = convolution.earlier(row, 3), torch.arange(len(row.ids))
    assert (read[:, len(pack.ids) :] == -1).all()
    for query in range(len(pack.ids)):
        seen = [-1, -1, -1, *places[(places <= query) & (query < row.ends)].tolist()]
        assert read[:, query].tolist() == seen[-2:-5:-1]


@pytest.mark.parametrize("budget", [10, 40, 70, 4096])
@pytest.mark.parametrize("make", [random_batch, tree_batch])
def test_every_prefix_is_computed_once_a_row_and_predicts_all_its_tokens(tmp_path, make, budget):
    batch = make(tmp_path)
    packs = plan(batch, budget)
    slots = torch.cat([pack.slots for pack in packs])
    assert torch.equal(slots.sort().values, torch.arange(batch.sampled_tokens))
    tokens = torch.cat([one.ids[one.sampled] for one in batch.sequences])
    before = [tuple(one.ids[:place].tolist()) for one in batch.sequences for place in one.sampled.nonzero()]
    for pack in packs:
        seen = paths(pack)
        members = {int(batch.owner[slot]) for slot in pack.slots}
        assert sorted(seen) == sorted(prefixes([batch.sequences[number] for number in members]))
        assert [len(path) - 1 for path in seen] == pack.positions.tolist()
        assert torch.equal(pack.targets, tokens[pack.slots])
        assert len(set(pack.predicting.tolist())) == len(pack.predicting)
        predicted = pack.predicting[pack.sources].tolist()
        assert [seen[place] for place in predicted] == [before[slot] for slot in pack.slots]
        longest = max(len(batch.sequences[number].ids) for number in members)
        assert len(pack.ids) <= max(budget, longest)
    if budget == 4096:
        assert len(packs) == 1 and len(packs[0].ids) == len(prefixes(batch.sequences)) < batch.tokens


def test_rows_are_cut_where_the_fewest_positions_are_computed_twice(tmp_path):
    batch = tree_batch(tmp_path, groups=2)
    trajectories = sorted(batch.sequences, key=lambda one: one.ids.tolist())
    computed_in = functools.cache(lambda first, end: len(prefixes(trajectories[first:end])))
    for budget in (40, 60, 90):
        sizes = []
        for cuts in itertools.product((False, True), repeat=len(trajectories) - 1):
            ends = [0, *(place for place, cut in enumerate(cuts, start=1) if cut), len(trajectories)]
            computed = [computed_in(*row) for row in itertools.pairwise(ends)]
            if max(computed) <= budget:
                sizes.append((sum(computed), len(computed)))
        packs = plan(batch, budget)
        assert (sum(len(pack.ids) for pack in packs), len(packs)) == min(sizes)


def test_a_trajectory_longer_than_the_budget_gets_a_row_of_its_own(tmp_path):
    batch = random_batch(tmp_path, groups=1, size=2, prompt=(20, 20), own=(30, 30))
    lengths = sorted(int(one.sampled.nonzero().max()) for one in batch.sequences)
    assert sorted(len(pack.ids) for pack in plan(batch, 10)) == lengths
    # What it contains needs no other.
    twice = Batch([batch.sequences[0]] * 2, batch.rollout, batch.advantages, batch.owner, batch.of_rollout, 1.0)
    assert len(plan(twice, 10)) == 1


@pytest.mark.parametrize("window", [None, 1, 9, 1000])
@pytest.mark.parametrize("together", BLOCKS)
def test_blocks_see_what_positions_see_and_are_few_where_segments_are_short(tmp_path, monkeypatch, together, window):
    for name, value in zip(("KEY", "CALL"), BLOCKS[together], strict=True):
        monkeypatch.setattr(blocks, name, value)
    (pack,) = plan(tree_batch(tmp_path), 4096)
    layout = Layout(pack)
    count, segments = len(layout.blocks), len(pack.segments)
    assert {"separate": count == segments, "one": count == 1, "chosen": 1 < count < segments}[together]
    places, seen = torch.arange(len(pack.ids)), []
    for block in layout.blocks:
        keys = torch.cat([places[start:end] for start, end in (*block.before, (block.start, block.end))])
        mask = layout.mask(block, torch.zeros(1), window)
        if mask is None:
            mask = torch.full((block.length, block.length), float("-inf")).triu(1)
        assert mask.shape == (block.length, len(keys))
        seen += [tuple(pack.ids[keys[row == 0]].tolist()) for row in mask]
    assert seen == paths(pack, window)


def test_segments_are_taken_together_only_where_it_costs_less():
    """Many short branches of a long prompt copy its keys once. Long ones would compute too many scores."""
    trunk = packing.Segment(500, ())
    for length, blocks_wanted in ((5, 2), (300, 9)):
        rows = (trunk, *(packing.Segment(length, ((0, 500),)) for _ in range(8)))
        found = list(blocks.blocks_of(rows))
        assert len(found) == blocks_wanted
        assert (found[0].start, found[0].end) == (0, 500)
        assert found[-1].end == 500 + 8 * length


def test_a_card_waits_for_the_host_less_often_than_a_cpu():
    """Positions of one chunk of logits, for Qwen2.5's vocabulary."""
    rows = [head.chunk_rows(30_000, 151_936, torch.device(name)) for name in ("cpu", "cuda")]
    assert rows == [110, 331]
    assert head.chunk_rows(20, 151_936, torch.device("cuda")) == 20


def test_entropy_is_that_of_the_whole_distribution():
    torch.manual_seed(0)
    hidden, weight = torch.randn(37, 8), torch.randn(50, 8)
    sources = torch.randint(37, (60,)).sort().values
    scores = head.score(hidden, weight, sources, torch.randint(50, (60,)), 1.3, chunk_bytes=50 * 4 * 16)
    expected = torch.distributions.Categorical(logits=hidden @ weight.T / 1.3).entropy()
    assert torch.allclose(scores.entropy, expected[sources], atol=1e-5)


def test_of_a_restricted_distribution_all_is_that_of_the_allowed_tokens_alone():
    """Also the gradient of an output layer that is trained. A vocabulary of 50 ends within a byte."""
    torch.manual_seed(0)
    hidden, weight = torch.randn(37, 8), torch.randn(50, 8, requires_grad=True)
    sources = torch.randint(37, (60,)).sort().values
    allowed = torch.rand(3, 50) < 0.3
    numbers = torch.randint(-1, 3, (37,))
    mask = torch.cat((allowed, torch.ones(1, 50, dtype=torch.bool)))[numbers]
    targets = torch.multinomial(mask[sources].float(), 1)[:, 0]
    padded = torch.nn.functional.pad(allowed, (0, 6)).view(3, 7, 8).to(torch.uint8)
    sets = (padded << torch.arange(8, dtype=torch.uint8)).sum(-1, dtype=torch.uint8)

    leaf = hidden.clone().requires_grad_(True)
    logits = (leaf @ weight.T / 1.3).masked_fill(~mask, float("-inf"))
    wanted = logits.log_softmax(-1)[sources, targets]
    (wanted**2).sum().backward()
    wanted_weight, weight.grad = weight.grad, None

    scores = head.score(
        hidden, weight, sources, targets, 1.3, lambda new: 2 * new, 50 * 4 * 16, head.Allowed(sets, numbers)
    )
    assert torch.allclose(scores.logprobs, wanted, atol=1e-5)
    assert torch.allclose(scores.gradient, leaf.grad, atol=1e-5)
    assert torch.allclose(weight.grad, wanted_weight, atol=1e-5)
    entropy = torch.distributions.Categorical(logits=logits.detach()).entropy()
    assert torch.allclose(scores.entropy, entropy[sources], atol=1e-5)


def test_the_output_layer_gets_its_own_gradient_when_it_is_trained():
    torch.manual_seed(0)
    # Some positions predict several tokens, some the same token twice, some none.
    hidden, targets, sources = torch.randn(37, 8), torch.randint(3, (60,)), torch.randint(37, (60,)).sort().values
    weight = torch.randn(50, 8, requires_grad=True)
    hidden.requires_grad_(True)
    (-(hidden @ weight.T).log_softmax(-1)[sources, targets].sum()).backward()
    wanted, weight.grad = weight.grad, None
    scores = head.score(
        hidden.detach(), weight, sources, targets, 1.0, lambda logprobs: -torch.ones_like(logprobs), 50 * 4 * 16
    )
    assert torch.allclose(weight.grad, wanted, atol=1e-5)
    assert torch.allclose(scores.gradient, hidden.grad, atol=1e-5)
