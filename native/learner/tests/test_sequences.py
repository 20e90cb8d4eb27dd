"""Rollouts of several sequences: an agent's tree of conversations, in which each sampled token is trained once."""

import pytest
import torch
from batches import OBJECTIVES, VOCABULARY, open_settings, sft_settings, step_settings, write_batch
from learner.batch import read_batch
from learner.optimizer import Optimizer
from learner.probe import choose
from learner.request import AdamSettings
from learner.session import Session
from learner.update import policy_update
from pairs import random_pair
from reference import read_rows

CONSTANT = 40
ROLLOUTS = 5
"""Two of them are not in the batch: their gradient is 0."""


def test_imitation_takes_rollouts_together_whatever_their_sequences(tmp_path, silent, qwen2):
    batch = tmp_path / "batch"
    write_agent_batch(batch)
    session = Session(open_settings(qwen2), silent)
    learnt = session.sft(sft_settings(batch, tmp_path / "into", epochs=2, updateTrajectories=2), silent)
    assert (learnt["updates"], learnt["trajectories"]) == (4, 3)


def write_agent_batch(path):
    """One group of three rollouts. The first has one sequence. The second goes on from one turn in two ways: the turn
    is sampled in the first of them and given in the other. The third asks a sub-agent with a prompt of its own.
    """
    generator = torch.Generator().manual_seed(3)

    def draw(count):
        return torch.randint(VOCABULARY, (count,), generator=generator)

    prompt, call, result, other = draw(8), draw(5), draw(4), draw(6)
    alone = [(prompt, 0), (draw(7), 1)]
    trunk = [(prompt, 0), (call, 1), (result, 0), (draw(6), 1)]
    branch = [(prompt, 0), (call, 0), (other, 0), (draw(3), 1), (draw(2), 0), (draw(9), 1)]
    main, sub = [(prompt, 0), (draw(4), 1)], [(draw(12), 0), (draw(11), 1)]
    sequences = []
    for texts, advantage in ((alone, 1.0), (trunk, -0.4), (branch, -0.4), (main, 0.7), (sub, 0.7)):
        ids = torch.cat([ids for ids, _ in texts])
        flags = torch.cat([torch.full((len(ids),), flag) for ids, flag in texts])
        logprobs = -torch.rand(len(ids), generator=generator) * 4 * flags
        sequences.append((0, 0, ids, flags, logprobs, advantage))
    return write_batch(path, sequences, members=[0, 1, 1, 2, 2])


class FirstGradient(Optimizer):
    gradient = None

    def clip(self, max_norm):
        self.gradient = torch.cat([parameter.grad.flatten() for parameter in self.parameters])
        return super().clip(max_norm)


@pytest.mark.parametrize("budget", [4096, 12])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_sequences_share_their_rollouts_weight_and_advantage(tmp_path, silent, name, budget):
    backend, reference = random_pair(tmp_path, silent)
    path = write_agent_batch(tmp_path / "batch.safetensors")
    batch, rows = read_batch(path, VOCABULARY), read_rows(path)

    # Before the first update every ratio is 1: the gradient is that of advantage times log-probability, with weights.
    sampled = rows.sampled[:, 1:]
    own = sampled.sum(dim=1)
    of_rollout = torch.tensor([own[0], own[1] + own[2], own[1] + own[2], own[3] + own[4], own[3] + own[4]])
    divisor = {
        "tokens": own.sum().expand(5),
        "sequences": of_rollout * ROLLOUTS,
        "constant": torch.tensor(ROLLOUTS * CONSTANT).expand(5),
    }[OBJECTIVES[name]["normaliser"]]
    logprobs = reference.logprobs(rows, 1.0)
    value = -(logprobs * sampled * rows.advantages / divisor[:, None]).sum()
    wanted = torch.cat([part.flatten() for part in torch.autograd.grad(value, reference.parameters)])

    optimizer = FirstGradient(backend.trainable(), AdamSettings())
    off = {"mode": "off", "low": 0, "high": 2}
    request = step_settings(
        path,
        tmp_path,
        objective=OBJECTIVES[name],
        importance=off,
        microBatchTokens=budget,
        rollouts=ROLLOUTS,
        maxCompletionTokens=CONSTANT,
    )
    metrics = policy_update(backend, optimizer, batch, request, silent)
    assert (optimizer.gradient - wanted).norm() <= 3e-5 * wanted.norm()
    assert (metrics["trajectories"], metrics["sequences"], metrics["groups"]) == (3, 5, 1)
    # The prefix that sequences of a tree share is computed once, where a row has room for it.
    assert (metrics["tokens"]["computed"] < batch.tokens - 20) == (budget > 100)


def test_a_probe_reaches_the_first_sampled_token_of_a_sequence_that_shares_no_prompt(tmp_path):
    ids, flags = torch.arange(900) % VOCABULARY, (torch.arange(900) >= 700).int()
    path = write_batch(tmp_path / "batch.safetensors", [(0, 0, ids, flags, -0.5 * flags, 1.0)])
    assert int(choose(read_batch(path, VOCABULARY)).sampled.sum()) == 128
