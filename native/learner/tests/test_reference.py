"""policy_update against reference.py: loss, gradients before Adam, and the adapter after each of its steps.

Both sides compute in f32, whose unit roundoff is 6e-8. Logits of size 10 are known to some 1e-6, so the weight of a
token in the gradient, an exponential of log-probabilities, has a relative error of that size. Adam divides each
gradient by its own size: one near zero becomes a step of full length in the direction of its rounding error. Such
weights are not compared, and the reference takes them over from the learner, so that the next gradients are those of
the same weights.
"""

import itertools
from dataclasses import replace
from statistics import mean

import pytest
import torch
from batches import OBJECTIVES, VOCABULARY, open_settings, step_settings, write_random_batch, write_tree_batch
from learner.backend import PeftBackend
from learner.batch import read_batch
from learner.optimizer import Optimizer
from learner.request import AdamSettings
from learner.update import policy_update
from reference import Reference, read_rows
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from models import make_model, write_gguf

GRADIENT_TOLERANCE = 3e-5
"""Norm of the difference over the norm."""
NOISE = 1e-3
"""Gradients below this share of their root mean square are not compared after Adam. Above it, an error within the
tolerance changes a step by a share of at most 3e-5 / 1e-3, and by far less where it is spread over all weights."""
STEP_TOLERANCE = 1e-3
"""Root mean square of the difference of a step's weights, in learning rates."""

VALUES = {
    "architecture": ("qwen2", "qwen3", "llama"),
    # One row; several; rows of one trajectory, each longer than the budget.
    "budget": (4096, 60, 20),
    "temperature": (0.7, 1.0, 1.3),
    "kl": (0.0, 0.1),
    "checkpointing": (False, True),
    "loss": ("dapo", "dr-grpo"),
    "epochs": (1, 2),
    "rollouts": ("random", "tree"),
}
CASES = [
    ("llama", 20, 1.3, 0.1, False, "dapo", 1, "tree"),
    ("qwen2", 60, 1.0, 0.0, True, "dr-grpo", 1, "tree"),
    ("qwen3", 4096, 0.7, 0.1, True, "dapo", 2, "tree"),
    ("llama", 4096, 1.0, 0.0, False, "dr-grpo", 2, "tree"),
    ("qwen2", 20, 0.7, 0.0, False, "dr-grpo", 2, "tree"),
    ("qwen3", 60, 1.3, 0.0, False, "dr-grpo", 2, "random"),
    ("llama", 60, 0.7, 0.0, True, "dapo", 1, "random"),
    ("qwen3", 20, 1.0, 0.1, True, "dr-grpo", 1, "random"),
    ("qwen2", 4096, 1.3, 0.1, True, "dr-grpo", 1, "random"),
    ("qwen2", 60, 1.0, 0.1, False, "dapo", 1, "tree"),
]
OTHERS = [
    ("granite", 60, 0.7, 0.1, True, "dapo", 2, "tree"),
    ("smollm3", 20, 1.3, 0.1, False, "dr-grpo", 1, "tree"),
    ("olmo2", 60, 1.0, 0.1, True, "dr-grpo", 2, "tree"),
    ("gemma3", 60, 0.7, 0.0, False, "dapo", 1, "tree"),
    ("phi3", 60, 1.3, 0.1, False, "dapo", 1, "tree"),
    ("lfm2", 60, 0.7, 0.1, True, "dapo", 2, "tree"),
]
"""What is theirs alone is the layers and the logits, whatever the objective."""
OWN_NAMES = {
    "phi3": ["qkv_proj", "o_proj", "gate_up_proj"],
    "lfm2": ["q_proj", "k_proj", "v_proj", "in_proj", "out_proj", "w1", "w3"],
}
"""Of the layers that have adapters."""
UPDATES = 3
MAX_GRAD_NORM = 0.2


class Watched(Optimizer):
    """Remembers gradients before they are clipped, and weights after each step."""

    def __init__(self, parameters):
        super().__init__(parameters, AdamSettings())
        self.gradients, self.weights = [], []

    def clip(self, max_norm):
        self.gradients.append(flat(parameter.grad for parameter in self.parameters))
        return super().clip(max_norm)

    def update(self, learning_rate):
        super().update(learning_rate)
        self.weights.append(flat(self.parameters))


def flat(tensors):
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def write_rollouts(path, policy, kind, seed, temperature):
    """A batch whose rollout log-probabilities lie around the policy's own, so that mismatch weights matter."""
    if kind == "tree":
        write_tree_batch(path, groups=2, seed=seed, temperature=temperature)
    else:
        write_random_batch(path, groups=3, size=3, seed=seed, temperature=temperature)
    rows = read_rows(str(path))
    with torch.no_grad():
        logprobs = policy.logprobs(rows, temperature)
    noise = torch.randn(logprobs.shape, generator=torch.Generator().manual_seed(seed)) * 0.5
    around = torch.nn.functional.pad(logprobs + noise, (1, 0)) * rows.sampled
    with safe_open(path, framework="pt") as file:
        about = file.metadata()
    save_file(load_file(path) | {"logprobs": around[rows.exists]}, path, about)
    return str(path)


def test_the_cases_have_every_pair_of_values():
    columns = list(VALUES.values())
    for one, other in itertools.combinations(range(len(columns)), 2):
        wanted = set(itertools.product(columns[one], columns[other]))
        assert wanted == {(case[one], case[other]) for case in CASES}


@pytest.mark.parametrize(tuple(VALUES), CASES + OTHERS)
def test_updates_equal_those_of_an_independent_implementation(
    tmp_path, silent, architecture, budget, temperature, kl, checkpointing, loss, epochs, rollouts
):
    lora = {"rank": 4, "alpha": 8, "targets": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj"]}
    # In Phi 3 some of the usual targets are one layer, and in LFM2's convolutions.
    more = {"lora": lora} if architecture in OWN_NAMES else {}
    settings = open_settings(write_gguf(make_model(architecture), tmp_path / "model.gguf"), **more)
    torch.manual_seed(0)
    backend = PeftBackend(settings, silent)
    optimizer = Watched(backend.trainable())
    with torch.no_grad():
        for parameter in optimizer.parameters:
            parameter.normal_(std=0.1)
    start = {name: value.detach() for name, value in backend.model.named_parameters() if value.requires_grad}
    targets = OWN_NAMES.get(architecture, settings.lora.targets)
    reference = Reference(make_model(architecture), replace(settings.lora, targets=targets), start)

    weights_clipped, ratios_clipped, norms = [], [], []
    for number in range(UPDATES):
        batch = write_rollouts(tmp_path / f"{number}.safetensors", reference, rollouts, number, temperature)
        request = step_settings(
            batch,
            tmp_path,
            objective=OBJECTIVES[loss],
            klCoefficient=kl,
            epochs=epochs,
            microBatchTokens=budget,
            gradientCheckpointing=checkpointing,
            maxCompletionTokens=40,
            maxGradNorm=MAX_GRAD_NORM,
        )
        optimizer.gradients, optimizer.weights = [], []
        metrics = policy_update(backend, optimizer, read_batch(batch, VOCABULARY), request, silent)
        ours = iter(zip(optimizer.gradients, optimizer.weights, strict=True))
        passes = []

        def compare(theirs, ours=ours, passes=passes, request=request):
            gradient, weights = next(ours)
            wanted = flat(theirs.gradients)
            assert (gradient - wanted).norm() <= GRADIENT_TOLERANCE * wanted.norm()
            noise = wanted.abs() < NOISE * wanted.square().mean().sqrt()
            assert noise.double().mean() < 0.02
            apart = torch.where(noise, 0, weights - flat(reference.parameters))
            assert apart.square().mean().sqrt() <= STEP_TOLERANCE * request.learning_rate
            with torch.no_grad():
                sizes = [parameter.numel() for parameter in reference.parameters]
                for parameter, value, unknown in zip(
                    reference.parameters, weights.split(sizes), noise.split(sizes), strict=True
                ):
                    parameter.copy_(torch.where(unknown.view_as(parameter), value.view_as(parameter), parameter))
            passes.append(theirs)

        reference.update(read_rows(batch), temperature, request, compare)
        assert next(ours, None) is None
        assert metrics["applied"] and len(passes) == epochs
        assert metrics["loss"] == pytest.approx(mean([each.loss for each in passes]), rel=1e-5, abs=2e-6)
        assert metrics["gradNorm"] == pytest.approx(mean([each.norm for each in passes]), rel=GRADIENT_TOLERANCE)
        for side in ("below", "above"):
            assert metrics["clip"][side] == pytest.approx(mean([getattr(each, side) for each in passes]), abs=1e-12)
        importance = {"truncated": passes[0].bounded, "masked": 0, "ess": passes[0].ess}
        assert metrics["importance"] == pytest.approx(importance, rel=1e-5)
        if kl:
            assert metrics["klBase"] == pytest.approx(passes[0].kl, rel=1e-5, abs=2e-6)
        rows = metrics["microBatches"]
        # In a row of 20 a tree's shortest rollouts have room together.
        alone = metrics["trajectories"] if rollouts == "random" else rows
        assert {4096: rows == 1, 60: 1 < rows < metrics["trajectories"], 20: rows == alone > 4}[budget]
        weights_clipped.append(passes[0].bounded)
        ratios_clipped.append(sum(metrics["clip"].values()))
        norms += [each.norm for each in passes]

    # What was to be compared took place.
    assert 0 < max(weights_clipped) < 1
    assert (max(ratios_clipped) > 0) == (epochs > 1)
    assert max(norms) > MAX_GRAD_NORM
