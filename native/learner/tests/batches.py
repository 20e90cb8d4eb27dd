"""Random batches in the shape of rollouts: groups with shared prefixes, sampled tokens with tool text between."""

from dataclasses import replace

import torch
from learner.batch import Batch, read_batch
from learner.request import OpenRequest, SftRequest, StepRequest, read
from safetensors.torch import save_file

VOCABULARY = 96


def objective(name, surrogate="clipped-ratio", ratio="token", normaliser="tokens", low=0.2, high=0.28):
    shape = {"surrogate": surrogate, "ratio": ratio, "normaliser": normaliser}
    return {"name": name, "clipLow": low, "clipHigh": high} | shape


OBJECTIVES = {
    "dapo": objective("dapo"),
    "grpo": objective("grpo", normaliser="sequences", high=0.2),
    "dr-grpo": objective("dr-grpo", normaliser="constant"),
    "gspo": objective("gspo", ratio="sequence", normaliser="sequences", low=3e-4, high=4e-4),
    "cispo": objective("cispo", surrogate="clipped-weight", low=None, high=4.0),
}
"""As hone sends them."""


def write_batch(path, rollouts, temperature=1.0, members=None):
    """`rollouts`: (group, length of its prompt, ids, sampled flags, log-probabilities, advantage). `members`: for each
    the number of the rollout that it is a sequence of; without them each is one. Returns the path.
    """
    groups, prompts, ids, sampled, logprobs, advantages = zip(*rollouts, strict=True)
    tensors = {
        "ids": torch.cat(ids).int(),
        "sampled": torch.cat(sampled).to(torch.uint8),
        "logprobs": torch.cat(logprobs),
        "lengths": torch.tensor([len(one) for one in ids], dtype=torch.int32),
        "groups": torch.tensor(groups, dtype=torch.int32),
        "prompts": torch.tensor(prompts, dtype=torch.int32),
        "advantages": torch.tensor(advantages),
        "rollouts": torch.tensor(members or range(len(ids)), dtype=torch.int32),
    }
    save_file(tensors, path, {"format": "hone-batch", "version": "3", "temperature": str(temperature)})
    return str(path)


def write_random_batch(
    path, groups=3, size=4, prompt=(8, 20), own=(6, 30), seed=0, temperature=1.0, advantage=None, told=None
):
    """Rollouts that share their group's prompt. Returns the file's path. Advantages are random unless given. `told`
    changes the log-probabilities."""
    generator = torch.Generator().manual_seed(seed)

    def number(low_high):
        return int(torch.randint(low_high[0], low_high[1] + 1, (1,), generator=generator))

    rollouts = []
    for group in range(groups):
        shared = torch.randint(VOCABULARY, (number(prompt),), generator=generator)
        for _ in range(size):
            length = number(own)
            flags = (torch.rand(length, generator=generator) < 0.7).int()
            flags[0] = 1
            ids = torch.cat((shared, torch.randint(VOCABULARY, (length,), generator=generator)))
            noise = -torch.rand(length, generator=generator) * 6
            noise = noise if told is None else told(noise)
            logprobs = torch.cat((torch.zeros(len(shared)), noise * flags))
            sampled = torch.cat((torch.zeros(len(shared), dtype=torch.int), flags))
            value = torch.randn(1, generator=generator).item() if advantage is None else advantage
            rollouts.append((group, len(shared), ids, sampled, logprobs, value))
    return write_batch(path, rollouts, temperature)


def write_tree_batch(path, groups=3, seed=0, temperature=1.0):
    """Rollouts that share more than their prompt; no two have the same advantage or log-probabilities. Of each group,
    after instructions that all groups share and a prompt:

    - a call, a tool's answer to it, and an answer; the same tokens again; the same with another last token
    - the same call and answer of the tool, which end there; and the same call alone, with a tool's answer in its turn
      that the others sampled
    - another call with the same answer of the tool, and a call that differs in one token at its start
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(count):
        return torch.randint(VOCABULARY, (count,), generator=generator)

    def parts(*texts):
        """Of (ids, whether they were sampled)."""
        ids = torch.cat([ids for ids, _ in texts])
        return ids, torch.cat([torch.full((len(ids),), int(flag)) for ids, flag in texts])

    instructions, rollouts = draw(6), []
    for group in range(groups):
        prompt = torch.cat((instructions, torch.tensor([group]), draw(7)))
        call, result, answer, other = draw(6), draw(9), draw(8), draw(5)
        start, asked, told = (prompt, 0), (call, 1), (result, 0)
        last = torch.cat((answer[:-1], (answer[-1:] + 1) % VOCABULARY))
        one_off = torch.cat(((call[:1] + 1) % VOCABULARY, call[1:]))
        written = [
            (start, asked, told, (answer, 1)),
            (start, asked, told, (answer, 1)),
            (start, asked, told, (last, 1)),
            (start, asked, told),
            (start, asked, told, (answer[:4], 0), (answer[4:6], 1)),
            (start, (other, 1), told, (draw(4), 1)),
            (start, (one_off, 1), told, (draw(12), 1), (draw(3), 0)),
        ]
        for texts in written:
            ids, flags = parts(*texts)
            logprobs = -torch.rand(len(ids), generator=generator) * 6 * flags
            advantage = torch.randn(1, generator=generator).item()
            rollouts.append((group, len(prompt), ids, flags, logprobs, advantage))
    return write_batch(path, rollouts, temperature)


def restricted(batch, seed=0) -> Batch:
    """Some tokens of the batch drawn from one of five sets that has them, in each trajectory from others."""
    generator = torch.Generator().manual_seed(seed)
    allowed = torch.rand(5, VOCABULARY, generator=generator) < 0.4
    trajectories = []
    for one in batch.sequences:
        numbers = torch.randint(-2, len(allowed), (len(one.ids),), generator=generator).clamp(min=-1)
        numbers[~one.sampled] = -1
        allowed[numbers[numbers >= 0], one.ids[numbers >= 0]] = True
        trajectories.append(replace(one, allowed=numbers))
    bits = allowed.view(len(allowed), -1, 8).to(torch.uint8) << torch.arange(8, dtype=torch.uint8)
    return replace(batch, sequences=trajectories, sets=bits.sum(-1, dtype=torch.uint8))


def restricted_tree(folder, **settings) -> Batch:
    return restricted(tree_batch(folder, **settings))


def random_batch(folder, **settings) -> Batch:
    return read_batch(write_random_batch(folder / "batch.safetensors", **settings), VOCABULARY)


def tree_batch(folder, **settings) -> Batch:
    return read_batch(write_tree_batch(folder / "batch.safetensors", **settings), VOCABULARY)


LORA = {"rank": 4, "alpha": 8, "targets": ["q_proj", "v_proj", "o_proj", "gate_proj", "down_proj"]}


def open_message(gguf, **more):
    """As hone sends it."""
    sent = {"backend": "peft", "base": {"gguf": str(gguf)}, "lora": LORA, "seed": 1, "threads": 1}
    return sent | {"device": "cpu", "precision": "f32"} | more


def open_settings(gguf, **more) -> OpenRequest:
    return read(OpenRequest, open_message(gguf, **more))


def step_message(batch, into, **more):
    """As hone sends it."""
    return {
        "batch": str(batch),
        "into": str(into),
        "objective": OBJECTIVES["dapo"],
        "importance": {"mode": "token-truncate", "low": 0, "high": 2},
        "learningRate": 1e-2,
        "klCoefficient": 0,
        "maxGradNorm": 1.0,
        "microBatchTokens": 4096,
        "gradientCheckpointing": False,
    } | more


def step_settings(batch, into, **more) -> StepRequest:
    return read(StepRequest, step_message(batch, into, **more))


def sft_settings(batch, into, **more) -> SftRequest:
    return read(SftRequest, step_message(batch, into, warmup=0.1) | more)
