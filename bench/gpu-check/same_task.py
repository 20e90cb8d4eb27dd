"""The task of vowels.ts by TRL's GRPOTrainer, or by it and Unsloth: prompts, rollouts, adapter and objective of hone's.

On a card vLLM plays in the trainer's process ("colocate"; Unsloth's own: fast_inference); with TRL it sleeps during an
update. On a CPU, a rehearsal, transformers plays. Prints a line of JSON: seconds, tokens and reward of steps, and
versions.

    python bench/gpu-check/same_task.py trl --model FOLDER --device cuda --groups 8 --size 8 --max-tokens 128 --steps 4
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import ClassVar

sys.path[:0] = [str(Path(__file__).parents[2] / "native"), str(Path(__file__).parents[1])]

RANK = 16
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
VLLM_SHARE = 0.5
"""Of the card's memory, as hone's --engine-memory has it."""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=["trl", "unsloth"])
    parser.add_argument("--model", required=True, help="folder in Hugging Face's form")
    parser.add_argument("--device", choices=["cpu", "cuda"], required=True)
    for name in ("groups", "size", "max-tokens", "context", "steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    return parser.parse_args()


def vowels(completions, **_) -> list[float]:
    """The share of vowels, as vowels.ts has it."""
    texts = [completion[0]["content"] for completion in completions]
    return [len(re.findall("[aeiou]", text, re.IGNORECASE)) / len(text) if text else 0.0 for text in texts]


def load_unsloth(options):
    from learner.choice import import_unsloth

    fast = import_unsloth(options.device).FastLanguageModel
    import torch

    on_card = options.device == "cuda"
    plays = dict(fast_inference=True, max_lora_rank=RANK, gpu_memory_utilization=VLLM_SHARE) if on_card else {}
    model, tokenizer = fast.from_pretrained(
        options.model,
        max_seq_length=options.context,
        dtype=torch.bfloat16 if on_card else torch.float32,
        load_in_4bit=False,
        local_files_only=True,
        **plays,
    )
    model = fast.get_peft_model(
        model, r=RANK, lora_alpha=2 * RANK, target_modules=TARGETS, use_gradient_checkpointing=False
    )
    return model, tokenizer


def main() -> None:
    options = parse()
    os.environ.update(HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1")
    on_card = options.device == "cuda"
    # Before transformers and TRL, of which it replaces parts.
    loaded = load_unsloth(options) if options.side == "unsloth" else None
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer
    from trl_settings import AS_HONE, UNTRUNCATED

    model, tokenizer = loaded or (options.model, AutoTokenizer.from_pretrained(options.model))
    questions = [f"Write vowels, {i}. " * 25 for i in range(56)]
    prompts = [[{"role": "user", "content": question.strip()}] for question in questions]
    plays = dict(use_vllm=True, vllm_mode="colocate", vllm_gpu_memory_utilization=VLLM_SHARE) if on_card else {}
    if on_card and options.side == "trl":
        plays |= dict(vllm_enable_sleep_mode=True, vllm_max_model_length=options.context)
    config = GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        use_cpu=not on_card,
        bf16=on_card,
        **({} if loaded else dict(model_init_kwargs={"dtype": "bfloat16" if on_card else "float32"})),
        max_steps=options.steps,
        per_device_train_batch_size=options.size,
        gradient_accumulation_steps=options.groups,
        num_generations=options.size,
        max_completion_length=options.max_tokens,
        learning_rate=1e-5,
        **plays,
        **AS_HONE,
        **UNTRUNCATED,
    )

    class Steps(TrainerCallback):
        lines: ClassVar[list[dict]] = []
        started = time.monotonic()
        tokens = 0.0

        def on_log(self, args, state, control, logs=None, **_):
            if "completions/mean_length" not in (logs or {}):
                return
            line = {"seconds": time.monotonic() - Steps.started, "tokens": logs["num_tokens"] - Steps.tokens}
            sampled = logs["completions/mean_length"] * options.groups * options.size
            Steps.lines.append(line | {"sampled": round(sampled), "reward": logs["reward"]})
            Steps.started, Steps.tokens = time.monotonic(), logs["num_tokens"]

    lora = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules=TARGETS, task_type="CAUSAL_LM")
    trainer = GRPOTrainer(
        model=model,
        args=config,
        reward_funcs=vowels,
        train_dataset=Dataset.from_dict({"prompt": prompts}),
        processing_class=tokenizer,
        peft_config=None if loaded else lora,
        callbacks=[Steps()],
    )
    Steps.started = time.monotonic()
    trainer.train()
    versions = {}
    for name in ("torch", "trl", "vllm", "unsloth", "transformers", "peft"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    peak = torch.cuda.max_memory_allocated() if on_card else None
    print(json.dumps({"steps": Steps.lines, "peakOfTensors": peak, "versions": versions}))


if __name__ == "__main__":
    main()
