"""One side of the bench rows learner/…: forward, backward and step of one update, by hone's learner or by another.

All sides get the same random model, the same adapter, and the same tensors: groups of rollouts that share a prompt,
turns of sampled tokens with tool results between; or those of a batch file (src/core/learn/batch.ts). The sides:

    hone, hone-unsloth   hone's learner with PEFT and with Unsloth; --apart: rows of whole trajectories, nothing shared,
                         as Unsloth has them on a GPU
    hone --mkl           without native/learner/products.py
    hone --expanded      with keys and values for each query head, where one call attends (native/learner/card.py)
    hone --weights TYPE  the model from a file with matrices of this GGUF type, which stay its blocks; nf4: with linear
                         layers in bitsandbytes' 4 bits, as QLoRA has them (arXiv:2305.14314)
    trl, unsloth         GRPOTrainer's own loss path with its own fused output layer, fed padded rows as its trainer
                         pads them; with Unsloth, what that makes of it (on a CPU, TRL's own on Unsloth's model);
                         --weights nf4: QLoRA, with transformers' bitsandbytes or with Unsloth's load_in_4bit

On a CPU in f32; on CUDA in bf16, which holds all weights of the model exactly, as those of a 16-bit file. Prints one
line of JSON; --gradients FILE gets the first update's gradient (f32, the parameters in the order of their names).

    python bench/learner/update.py hone --shape 0.5b
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

from random_model import in_nf4, make_model, open_file

sys.path[:0] = [str(Path(__file__).parents[2] / "native")]

SHAPES = {
    # Qwen2.5-0.5B
    "0.5b": dict(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24)
    | dict(num_attention_heads=14, num_key_value_heads=2),
    # SmolLM2-135M, as Qwen2 has it: with biases of queries, keys and values.
    "smollm2": dict(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30)
    | dict(num_attention_heads=9, num_key_value_heads=3),
    # The embedded model's size.
    "tiny": dict(vocab_size=2432, hidden_size=256, intermediate_size=640, num_hidden_layers=4)
    | dict(num_attention_heads=4, num_key_value_heads=4),
    # Two query heads to a key: for --expanded.
    "tiny-shared-keys": dict(vocab_size=2432, hidden_size=256, intermediate_size=640, num_hidden_layers=4)
    | dict(num_attention_heads=4, num_key_value_heads=2),
}
LORA = {
    "rank": 8,
    "alpha": 16,
    "targets": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
}
LEARNING_RATE = 1e-5
WEIGHTS = ["F16", "Q8_0", "Q4_0", "nf4"]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=["hone", "hone-unsloth", "trl", "unsloth"])
    parser.add_argument("--device", choices=["cpu", "cuda", "auto"], default="cpu")
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("--gradients")
    parser.add_argument("--shape", choices=sorted(SHAPES), default="tiny")
    parser.add_argument("--groups", type=int, default=8)
    parser.add_argument("--size", type=int, default=8, help="rollouts in a group")
    parser.add_argument("--prompt", type=int, nargs=2, default=(300, 600))
    parser.add_argument("--completion", type=int, nargs=2, default=(100, 200))
    parser.add_argument("--batch", help="a batch file, in the place of rollouts of random tokens")
    parser.add_argument(
        "--rows", type=int, default=8, help="TRL: per_device_train_batch_size; hone: as many tokens in a row"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--expanded", action="store_true", help="hone: keys for each query head (card.py)")
    parser.add_argument("--mkl", action="store_true", help="hone: products of f32 as PyTorch computes them")
    parser.add_argument("--weights", choices=WEIGHTS, help="the type of frozen weights; trl, unsloth: nf4 alone")
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    if options.weights not in (None, "nf4") and not options.side.startswith("hone"):
        parser.error(f"{options.side} has no weights of type {options.weights}")
    return options


def make_rollouts(options, vocabulary):
    """(group, prompt length, ids, sampled flags, advantage) of every rollout."""
    import torch

    if options.batch:
        return read_rollouts(options.batch)
    generator = torch.Generator().manual_seed(7)

    def between(low, high):
        return int(torch.randint(low, high + 1, (1,), generator=generator))

    rollouts = []
    for group in range(options.groups):
        prompt = torch.randint(vocabulary, (between(*options.prompt),), generator=generator)
        for _ in range(options.size):
            length = between(*options.completion)
            flags, on = [], 1
            while len(flags) < length:
                flags += [on] * (between(25, 50) if on else between(20, 80))
                on = 1 - on
            own = torch.randint(vocabulary, (length,), generator=generator)
            flags = torch.tensor(flags[:length])
            advantage = torch.randn(1, generator=generator).item()
            rollouts.append((group, len(prompt), torch.cat((prompt, own)), flags, advantage))
    return rollouts


def read_rollouts(path):
    from learner.batch import read_batch

    batch = read_batch(path, 2**31)
    advantages = {int(owner): float(value) for owner, value in zip(batch.owner, batch.advantages, strict=True)}
    return [
        (one.group, one.prompt, one.ids, one.sampled[one.prompt :].int(), advantages[number])
        for number, one in enumerate(batch.sequences)
    ]


def shape_of(options):
    shape = SHAPES[options.shape]
    if options.batch:
        shape = shape | {"vocab_size": 1 + max(int(ids.max()) for _, _, ids, _, _ in read_rollouts(options.batch))}
    return shape


def choose_device(wanted):
    import torch

    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(wanted)


def held_by(device):
    """The type of 16 bits that holds the model's weights exactly; None on a CPU."""
    import torch

    return torch.bfloat16 if device.type == "cuda" else None


def write_gradients(options, model) -> None:
    """Writes the gradients of a model's parameters, once."""
    if options.gradients and not os.path.exists(options.gradients):
        parameters = [(name, one) for name, one in model.named_parameters() if one.requires_grad]
        with open(options.gradients, "wb") as file:
            for _, parameter in sorted(parameters):
                file.write(parameter.grad.detach().float().cpu().numpy().tobytes())


def make_unsloth_model(options, device, **more):
    """The model of make_model, loaded by Unsloth with its adapter."""
    from learner.choice import import_unsloth

    fast = import_unsloth(device.type).FastLanguageModel
    import torch
    from learner.unsloth_backend import OFFLOADING
    from learner.unsloth_model import write_tokenizer

    in_4bit = options.weights == "nf4"
    with tempfile.TemporaryDirectory() as folder:
        make_model(shape_of(options), held_by(device)).save_pretrained(folder)
        write_tokenizer(Path(folder))
        place = {"device_map": {"": 0}} if device.type == "cuda" else more
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        model, tokenizer = fast.from_pretrained(
            folder, max_seq_length=4096, dtype=dtype, load_in_4bit=in_4bit, local_files_only=True, **place
        )
    model = fast.get_peft_model(
        model.requires_grad_(False),
        r=LORA["rank"],
        lora_alpha=LORA["alpha"],
        target_modules=LORA["targets"],
        use_gradient_checkpointing=OFFLOADING if options.checkpointing and device.type == "cuda" else False,
    )
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return fast, model, tokenizer


def seed_adapter(model):
    """Sets the same initial weights on all sides, so that their gradients must be the same."""
    import torch

    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if "lora_" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.02)


def make_backend(options, device):
    """Builds hone's backend around a model that is in no file."""
    if options.side == "hone-unsloth":
        from learner.choice import import_unsloth

        # Before transformers and PEFT, of which it replaces parts on a GPU.
        import_unsloth(device.type)
    import torch
    from learner import attention
    from learner.backend import PeftBackend, _linears_to, _with_adapter
    from learner.card import rows_for
    from learner.device import choose_device as choose_as_the_learner
    from learner.products import choose_products
    from learner.request import Lora

    # Which also takes cuDNN's attention out of PyTorch's.
    choose_as_the_learner(device.type)
    if device.type == "cpu" and not options.mkl:
        choose_products()
    attention.register()
    if options.side == "hone-unsloth":
        from learner.unsloth_backend import UnslothBackend

        backend = UnslothBackend.__new__(UnslothBackend)
        backend._unsloth, backend.model, _ = make_unsloth_model(options, device, attn_implementation=attention.NAME)
        backend._begin(device)
    elif options.weights and options.weights != "nf4":
        backend = open_file(shape_of(options), options.weights, LORA, device)
    else:
        backend = PeftBackend.__new__(PeftBackend)
        backend.rows = rows_for(device)
        make = in_nf4 if options.weights else make_model
        model = make(shape_of(options), held_by(device)).requires_grad_(False).to(device)
        model.config._attn_implementation = attention.NAME
        if device.type == "cuda":
            _linears_to(model, torch.bfloat16)
        backend.model = _with_adapter(model, Lora(**LORA))
    if not options.weights or options.weights == "nf4":
        # Of no file.
        backend.base = SimpleNamespace(weights="f32")
    backend.device, backend.precision = device, "bf16" if device.type == "cuda" else "f32"
    backend._causal = backend.model.base_model.model
    backend.model.train()
    if options.apart:
        backend.shares = False
    if options.expanded:
        backend.rows.expanded = True
    if options.side == "hone-unsloth":
        # Once per process, so it is not part of an update's time.
        backend.checkpointing(options.checkpointing)
        backend.check()
    return backend


def run_hone(options):
    import torch

    device = choose_device(options.device)
    shape = shape_of(options)
    backend = make_backend(options, device)
    from learner.batch import Batch, BatchSequence
    from learner.optimizer import Optimizer
    from learner.request import AdamSettings, StepRequest, read
    from learner.update import policy_update

    seed_adapter(backend.model)
    optimizer = Optimizer(backend.trainable(), AdamSettings())
    clip = optimizer.clip

    def written_and_clipped(most):
        write_gradients(options, backend.model)
        return clip(most)

    optimizer.clip = written_and_clipped

    trajectories, advantages, owner, slot = [], [], [], 0
    rollouts = make_rollouts(options, shape["vocab_size"])
    for number, (group, prompt, ids, flags, advantage) in enumerate(rollouts):
        sampled = torch.cat((torch.zeros(prompt, dtype=torch.bool), flags.bool()))
        trajectories.append(BatchSequence(ids, sampled, group, prompt, slot, number))
        count = int(flags.sum())
        slot += count
        advantages.append(torch.full((count,), advantage))
        owner.append(torch.full((count,), number))
    rollout = torch.zeros(slot)
    owner = torch.cat(owner)
    batch = Batch(trajectories, rollout, torch.cat(advantages), owner, owner, temperature=1.0)
    objective = dict(name="dapo", surrogate="clipped-ratio", ratio="token", normaliser="tokens")
    objective |= dict(clipLow=0.2, clipHigh=0.28)
    # Without vLLM TRL has no importance weights either.
    importance = dict(mode="off", low=0, high=2)
    asked = dict(batch="", into="", objective=objective, importance=importance, klCoefficient=0, maxGradNorm=1e9)
    asked |= dict(gradientCheckpointing=options.checkpointing, learningRate=LEARNING_RATE)
    # As many positions in a row as TRL's micro-batch has without its padding.
    mean = sum(len(ids) for _, _, ids, _, _ in rollouts) / len(rollouts)
    asked["microBatchTokens"] = getattr(options, "row_tokens", None) or int(mean * options.rows)
    request = read(StepRequest, asked)
    metrics = {}

    def step():
        metrics.update(policy_update(backend, optimizer, batch, request, lambda *_: None))

    return step, lambda: {
        "loss": metrics["loss"],
        "gradNorm": metrics["gradNorm"],
        "computed": metrics["tokens"]["computed"],
        "way": backend.rows.way.name,
        "notes": backend.notes(),
    }


def run_trl(options):
    import torch

    device = choose_device(options.device)
    ready = make_unsloth_model(options, device) if options.side == "unsloth" else None
    from datasets import Dataset
    from peft import LoraConfig
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast
    from trl import GRPOConfig, GRPOTrainer

    shape = shape_of(options)
    words = Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="a", eos_token="b")
    rollouts = make_rollouts(options, shape["vocab_size"])
    passes = len(rollouts) // options.rows
    config = GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        use_cpu=device.type == "cpu",
        bf16=device.type == "cuda",
        per_device_train_batch_size=options.rows,
        gradient_accumulation_steps=passes,
        num_generations=options.size,
        loss_type="dapo",
        epsilon=0.2,
        epsilon_high=0.28,
        beta=0.0,
        gradient_checkpointing=options.checkpointing,
        report_to=[],
    )
    lora = LoraConfig(r=LORA["rank"], lora_alpha=LORA["alpha"], target_modules=LORA["targets"], task_type="CAUSAL_LM")
    trainer = GRPOTrainer(
        model=ready[1] if ready else (in_nf4 if options.weights else make_model)(shape, held_by(device)),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=config,
        train_dataset=Dataset.from_dict({"prompt": ["a"] * len(rollouts)}),
        processing_class=tokenizer,
        peft_config=None if ready else lora,
    )
    model = trainer.model.train()
    seed_adapter(model)
    if options.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    trainer.current_gradient_accumulation_steps = passes
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    adam = torch.optim.AdamW(parameters, lr=LEARNING_RATE, betas=(0.9, 0.99), weight_decay=0.1)
    pad = torch.nn.utils.rnn.pad_sequence
    total = torch.tensor(float(sum(int(flags.sum()) for *_, flags, _ in rollouts)))

    # Unsloth replaces the public method by its own loss.
    loss_of = trainer.compute_loss if ready else trainer._compute_loss
    micro = []
    for start in range(0, len(rollouts), options.rows):
        part = rollouts[start : start + options.rows]
        prompts = [ids[:prompt] for _, prompt, ids, _, _ in part]
        own = [ids[prompt:] for _, prompt, ids, _, _ in part]
        ones = [torch.ones(len(row), dtype=torch.long) for row in prompts]
        micro.append(
            {
                "prompt_ids": pad(prompts, batch_first=True, padding_side="left"),
                "prompt_mask": pad(ones, batch_first=True, padding_side="left"),
                "completion_ids": pad(own, batch_first=True),
                "completion_mask": pad([torch.ones(len(row), dtype=torch.long) for row in own], batch_first=True),
                "tool_mask": pad([flags.long() for *_, flags, _ in part], batch_first=True),
                "advantages": torch.tensor([advantage for *_, advantage in part]),
                "num_items_in_batch": total,
            }
        )
    micro = [{name: value.to(device) for name, value in one.items()} for one in micro]
    seen = {}

    def step():
        loss = 0.0
        for inputs in micro:
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                value = loss_of(model, inputs)
            value.backward()
            loss += value.item()
        write_gradients(options, model)
        seen["gradNorm"] = float(torch.nn.utils.clip_grad_norm_(parameters, 1e9))
        adam.step()
        adam.zero_grad()
        seen["loss"] = loss
        seen["computed"] = sum(one["prompt_ids"].numel() + one["completion_ids"].numel() for one in micro)

    return step, lambda: seen


def main() -> None:
    options = parse()
    # `yarn bench` gives all of hone's learner (src/core/learn/environment.ts).
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    os.environ["HF_HUB_OFFLINE"] = "1"
    import learner  # noqa: F401  (sets what PyTorch reads when it is imported)
    import torch
    from learner.memory import PeakMemory

    torch.set_num_threads(options.threads)
    device = choose_device(options.device)
    step, result = (run_hone if options.side.startswith("hone") else run_trl)(options)
    memory = PeakMemory(device)
    seconds, cpu = [], []
    for _ in range(options.repeats):
        started, used = time.monotonic(), time.process_time()
        step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.monotonic() - started)
        cpu.append(time.process_time() - used)
    rollouts = make_rollouts(options, shape_of(options)["vocab_size"])
    tokens = sum(len(ids) for _, _, ids, _, _ in rollouts)
    sampled = sum(int(flags.sum()) for *_, flags, _ in rollouts)
    name = torch.cuda.get_device_name() if device.type == "cuda" else "cpu"
    line = {
        "side": options.side,
        "device": name,
        "shape": options.shape,
        "rollouts": len(rollouts),
        "tokens": tokens,
        "sampled": sampled,
        **result(),
    }
    line |= {
        "seconds": min(seconds),
        "firstSeconds": seconds[0],
        "cpuSeconds": min(cpu),
        "tokensPerSecond": tokens / min(seconds),
        "aboveModel": memory.peak - memory.loaded,
    }
    print(json.dumps(line | {"loaded": memory.loaded}))


if __name__ == "__main__":
    main()
