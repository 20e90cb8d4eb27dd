"""Updates for an engine that keeps adapters in 16 bits, against plain PyTorch with the rounded adapter.

vLLM 0.32 (lora/lora_model.py, lora_weights.py): `lora_a.to(dtype)`, `lora_b.to(dtype)`, then `lora_b *= alpha / rank`.
"""

import pytest
import torch
from batches import open_settings, step_settings, write_random_batch
from learner.as_played import rounding, within
from learner.backend import PeftBackend
from learner.batch import read_batch
from learner.checkpoint import earlier_policy
from learner.errors import Refused
from learner.fused import Order
from learner.optimizer import Optimizer
from learner.ranks import ALONE
from learner.request import AdamSettings, Lora
from learner.session import Session
from learner.update import policy_update
from learner.version import of_batch
from reference import Reference, read_rows
from safetensors.torch import load_file, save_file

from models import make_model, write_gguf

TYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
GRADIENT_TOLERANCE = 3e-5
"""As in test_reference.py: norm of the difference over the norm, both sides in f32."""
LOGPROBS = 2e-5
"""Logits below 20 in f32, each a sum of 32 products in another order: 20 * 32 * 2^-24 at most, on average far less."""
LORA = {"rank": 4, "alpha": 12, "targets": ["q_proj", "v_proj", "o_proj", "gate_proj", "down_proj"]}
"""alpha / rank is no power of two, so that the scaled B is rounded once more."""


class Watched(Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, AdamSettings())
        self.gradients = []

    def clip(self, max_norm):
        self.gradients.append(flat(parameter.grad for parameter in self.parameters))
        return super().clip(max_norm)


def flat(tensors):
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def distance(one, other):
    return ((one - other).norm() / other.norm()).item()


@pytest.fixture
def backend(tmp_path, silent):
    settings = open_settings(write_gguf(make_model("qwen2"), tmp_path / "model.gguf"), lora=LORA)
    torch.manual_seed(0)
    opened = PeftBackend(settings, silent)
    with torch.no_grad():
        for parameter in opened.trainable():
            parameter.normal_(std=0.1)
    return opened


def held(backend, dtype):
    """The adapter's weights as vLLM holds them, by name, with B before it is scaled."""
    scaling = LORA["alpha"] / LORA["rank"]
    found = {}
    for name, value in backend.model.named_parameters():
        if value.requires_grad:
            half = value.detach().to(dtype)
            found[name] = half.float() if "lora_A" in name else (half * scaling).float() / scaling
    return found


def updated(backend, path, kind, silent, **more):
    optimizer = Watched(backend.trainable())
    asked = {"adapterType": kind, "maxGradNorm": 1e9, "learningRate": 0} | more
    request = step_settings(path, "unused", **asked)
    metrics = policy_update(backend, optimizer, read_batch(path, backend.vocabulary), request, silent)
    return metrics, optimizer.gradients


@pytest.mark.parametrize("kind", TYPES)
def test_the_policy_and_its_gradient_are_those_of_the_rounded_adapter(kind, backend, tmp_path, silent):
    path = write_random_batch(tmp_path / "batch.safetensors")
    own = flat(backend.trainable())
    metrics, (gradient,) = updated(backend, path, kind, silent)

    # A second time with merged weights, without adapters: W + B A in f32, of factors in 16 bits.
    merged = make_model("qwen2")
    modules = dict(merged.named_modules())
    factors = dict(backend.model.named_parameters())
    for name, a in factors.items():
        if "lora_A" in name:
            b = factors[name.replace("lora_A", "lora_B")].detach().to(TYPES[kind]) * (LORA["alpha"] / LORA["rank"])
            linear = modules[name.removeprefix("base_model.model.").split(".lora_A")[0]]
            linear.weight.data += b.float() @ a.detach().to(TYPES[kind]).float()
    probe = metrics["probe"]
    ids = torch.tensor(probe["ids"])[None]
    with torch.no_grad():
        scores = merged(input_ids=ids, use_cache=False).logits[0].log_softmax(-1)
    wanted = torch.tensor([scores[at - 1, ids[0, at]] for at in probe["scored"]])
    assert (torch.tensor(probe["before"]) - wanted).abs().max() < LOGPROBS

    def reference(start):
        gradients = []
        request = step_settings(path, "unused", epochs=1, learningRate=0, maxGradNorm=1e9)
        policy = Reference(make_model("qwen2"), Lora(**LORA), start)
        policy.update(read_rows(path), 1.0, request, lambda epoch: gradients.extend(epoch.gradients))
        return flat(gradients)

    assert distance(gradient, reference(held(backend, TYPES[kind]))) < GRADIENT_TOLERANCE
    unrounded = {name: value.detach() for name, value in factors.items() if value.requires_grad}
    assert distance(gradient, reference(unrounded)) > 10 * GRADIENT_TOLERANCE
    # Its own copy is what it was.
    assert torch.equal(flat(backend.trainable()), own)


@pytest.mark.parametrize("kind", TYPES)
def test_of_an_engine_that_has_a_alone_in_16_bits_b_is_what_it_was(kind, backend):
    own = {name: one.detach().clone() for name, one in backend.model.named_parameters() if one.requires_grad}
    with rounding(backend, f"{kind}-a")():
        for name, one in backend.model.named_parameters():
            if name in own:
                assert torch.equal(one, own[name].to(TYPES[kind]).float() if "lora_A" in name else own[name])
    assert all(torch.equal(one, own[name]) for name, one in backend.model.named_parameters() if name in own)


def test_steps_smaller_than_a_rounding_add_up(backend, tmp_path, silent):
    path = write_random_batch(tmp_path / "batch.safetensors")
    before = flat(backend.trainable())
    # Adam's steps have the length of the learning rate: of weights of 0.1 a rounding to bf16 is 2^-12.
    updated(backend, path, "bf16", silent, learningRate=2.0**-16)
    moved = (flat(backend.trainable()) - before).abs()
    assert moved.median() > 2.0**-17
    for _ in range(3):
        updated(backend, path, "bf16", silent, learningRate=2.0**-16)
    assert (flat(backend.trainable()) - before).abs().median() > 2 * moved.median()


def test_an_earlier_policy_is_rounded_too_and_leaves_the_own_one(tmp_path, silent):
    base = write_gguf(make_model("qwen2"), tmp_path / "model.gguf")
    session = Session(open_settings(base, lora=LORA), silent)
    path = write_random_batch(tmp_path / "batch.safetensors")
    session.step(step_settings(path, tmp_path / "0001", adapterType="bf16", learningRate=0.1), silent)
    backend = session._backend
    earlier = held(backend, torch.bfloat16)
    unrounded = {name: one.detach().clone() for name, one in backend.model.named_parameters() if name in earlier}
    session.step(step_settings(path, tmp_path / "0002", adapterType="bf16"), silent)
    own = flat(backend.trainable())
    rounded = rounding(backend, "bf16")
    with rounded():
        now = flat(backend.trainable())
        with within(earlier_policy(str(tmp_path / "0001"), backend), rounded)():
            assert torch.equal(flat(backend.trainable()), flat(earlier.values()))
        assert torch.equal(flat(backend.trainable()), now) and not torch.equal(now, own)
    assert torch.equal(flat(backend.trainable()), own)

    # So it is where it is asked what it would have played.
    by = {"adapterType": "bf16", "playedBy": {"checkpoint": str(tmp_path / "0001")}}
    request, rows = step_settings(path, "unused", **by), read_rows(path)
    scored = of_batch(backend, read_batch(path, backend.vocabulary), request, ALONE).logprobs

    @torch.no_grad()
    def apart(start):
        logprobs = Reference(make_model("qwen2"), Lora(**LORA), start).logprobs(rows, 1.0)[rows.sampled[:, 1:]]
        return (scored - logprobs)[scored.isfinite()].abs().max()

    assert apart(earlier) < LOGPROBS and apart(unrounded) > 10 * LOGPROBS


def test_an_earlier_policy_without_a_part_of_the_adapter_is_refused(tmp_path, silent):
    base = write_gguf(make_model("qwen2"), tmp_path / "model.gguf")
    session = Session(open_settings(base, lora=LORA), silent)
    session.step(step_settings(write_random_batch(tmp_path / "batch.safetensors"), tmp_path / "0001"), silent)
    file = tmp_path / "0001/adapter/adapter_model.safetensors"
    weights = load_file(file)
    lost = sorted(weights)[0]
    save_file({name: one for name, one in weights.items() if name != lost}, file)
    with pytest.raises(Refused, match=rf"0001 has no {lost}"):
        earlier_policy(str(tmp_path / "0001"), session._backend)


def test_a_failure_leaves_the_own_adapter(backend):
    own = flat(backend.trainable())
    with pytest.raises(RuntimeError), rounding(backend, "bf16")():
        raise RuntimeError
    assert torch.equal(flat(backend.trainable()), own)


def test_an_unknown_type_is_refused(backend):
    with pytest.raises(Refused, match="adapterType: q8_0 is not accepted; there are f32, f16, bf16"):
        rounding(backend, "q8_0")


@pytest.mark.parametrize(("kind", "apart"), [("bf16", True), ("f16", True), ("bf16-a", False), ("f32", False)])
def test_layers_are_rounded_before_the_adapters_share_where_the_engine_does_so(kind, apart, backend):
    with within(rounding(backend, "f32"), rounding(backend, kind))():
        assert Order.apart is apart
    assert not Order.apart
