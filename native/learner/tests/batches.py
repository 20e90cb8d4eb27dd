"""Random batches in the shape of rollouts: groups with a shared prompt, sampled tokens with tool text between."""

import torch
from learner.batch import Batch, read_batch
from safetensors.torch import save_file

VOCABULARY = 96


def objective(name, surrogate="clipped-ratio", ratio="token", normaliser="tokens", low=0.2, high=0.28):
    shape = {"surrogate": surrogate, "ratio": ratio, "normaliser": normaliser}
    return {"name": name, "clipLow": low, "clipHigh": high} | shape


OBJECTIVES = {
    "grpo": objective("grpo"),
    "dr-grpo": objective("dr-grpo", normaliser="constant"),
    "gspo": objective("gspo", ratio="sequence", normaliser="sequences", low=3e-4, high=4e-4),
    "cispo": objective("cispo", surrogate="clipped-weight", low=None, high=4.0),
}
"""As hone sends them."""


def write_random_batch(path, groups=3, size=4, prompt=(8, 20), own=(6, 30), seed=0, temperature=1.0, advantage=None):
    """Returns the file's path. Advantages are random unless given."""
    generator = torch.Generator().manual_seed(seed)

    def number(low_high):
        return int(torch.randint(low_high[0], low_high[1] + 1, (1,), generator=generator))

    ids, sampled, logprobs, lengths, members, prompts, advantages = [], [], [], [], [], [], []
    for group in range(groups):
        shared = torch.randint(VOCABULARY, (number(prompt),), generator=generator)
        for _ in range(size):
            length = number(own)
            flags = (torch.rand(length, generator=generator) < 0.7).int()
            flags[0] = 1
            ids += [shared, torch.randint(VOCABULARY, (length,), generator=generator)]
            sampled += [torch.zeros(len(shared), dtype=torch.int), flags]
            noise = -torch.rand(length, generator=generator) * 6
            logprobs += [torch.zeros(len(shared)), noise * flags]
            lengths.append(len(shared) + length)
            members.append(group)
            prompts.append(len(shared))
            advantages.append(torch.randn(1, generator=generator).item() if advantage is None else advantage)
    tensors = {
        "ids": torch.cat(ids).int(),
        "sampled": torch.cat(sampled).to(torch.uint8),
        "logprobs": torch.cat(logprobs),
        "lengths": torch.tensor(lengths, dtype=torch.int32),
        "groups": torch.tensor(members, dtype=torch.int32),
        "prompts": torch.tensor(prompts, dtype=torch.int32),
        "advantages": torch.tensor(advantages),
    }
    save_file(tensors, path, {"format": "hone-batch", "version": "1", "temperature": str(temperature)})
    return str(path)


def random_batch(folder, **settings) -> Batch:
    return read_batch(write_random_batch(folder / "batch.safetensors", **settings), VOCABULARY)


def open_settings(gguf, **more):
    return {
        "backend": "peft",
        "base": {"gguf": str(gguf)},
        "lora": {"rank": 4, "alpha": 8, "targets": ["q_proj", "v_proj", "o_proj", "gate_proj", "down_proj"]},
        "seed": 1,
        "threads": 1,
        "device": "cpu",
        "precision": "f32",
    } | more


def step_settings(batch, into, **more):
    return {
        "batch": str(batch),
        "into": str(into),
        "objective": OBJECTIVES["grpo"],
        "importance": {"mode": "token-truncate", "low": 0, "high": 2},
        "learningRate": 1e-2,
        "klCoefficient": 0,
        "maxGradNorm": 1.0,
        "microBatchTokens": 4096,
        "gradientCheckpointing": False,
    } | more
