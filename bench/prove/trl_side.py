"""One of the faults of `yarn prove` in TRL's GRPOTrainer, on a CPU: what does it say?

Three steps of the tiny model, two groups of four, rewards that count a letter. Prints a line of JSON: the error,
and all lines that TRL, transformers and Python's warnings wrote. What a run without a fault writes too is no sign of
one (trl.ts compares).

    python trl_side.py --gguf MODEL.gguf --fault none
"""

import argparse
import io
import json
import logging
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2] / "native"), str(Path(__file__).parents[1])]

GROUPS, SIZE, STEPS = 2, 4, 3


def mask(change):
    """Of the tokens that are trained, [rollouts, tokens]."""

    def put_in(trainer: Any) -> None:
        generate = trainer._generate_and_score_completions

        def changed(inputs):
            output = generate(inputs)
            output["completion_mask"] = change(output["completion_mask"])
            return output

        trainer._generate_and_score_completions = changed

    return put_in


def rewards(change):
    """[rollouts, 1]"""

    def put_in(trainer: Any) -> None:
        calculate = trainer._calculate_rewards
        trainer._calculate_rewards = lambda *given: change(calculate(*given))

    return put_in


def without_stop_token(found):
    """Tokens behind it are not trained in any case."""
    last = found.sum(1, keepdim=True) - 1
    return found.scatter(1, last.clamp(min=0), 0)


def nan_reward(trainer: Any) -> None:
    (own,) = trainer.reward_funcs
    trainer.reward_funcs = [lambda **given: [float("nan"), *own(**given)[1:]]]


def keep_gradients(trainer: Any) -> None:
    trainer.model.zero_grad = lambda *_, **__: None


def before_optimizer(change):
    def put_in(trainer: Any) -> None:
        from transformers import TrainerCallback

        class Before(TrainerCallback):
            def on_pre_optimizer_step(self, args, state, control, optimizer=None, **_):
                change(getattr(optimizer, "optimizer", optimizer))

        trainer.add_callback(Before())

    return put_in


def disturb_moments(optimizer: Any) -> None:
    for state in optimizer.state.values():
        state["exp_avg"].normal_(0, float(state["exp_avg"].std()))


def ten_times(optimizer: Any) -> None:
    for group in optimizer.param_groups:
        group["lr"] = 10 * RATE


def cooler(trainer: Any) -> None:
    trainer.generation_config.temperature = 0.7
    trainer.generation_kwargs["temperature"] = 0.7


def one_seed(trainer: Any) -> None:
    """All rollouts of a group are its first."""
    generate = trainer._generate_single_turn

    def changed(*given, **by_name):
        completions, logprobs = generate(*given, **by_name)
        return [completions[i - i % SIZE] for i in range(len(completions))], logprobs

    trainer._generate_single_turn = changed


RATE = 2e-5
FAULTS = {
    "none": lambda _: None,
    "mask shifted by one to the left": mask(lambda found: found.roll(-1, 1)),
    "stop tokens not trained": mask(without_stop_token),
    "sampled at temperature 0.7, trained at 1": cooler,
    "rewards given to the next id": rewards(lambda values: values.roll(1, 0)),
    "a reward is NaN": nan_reward,
    "sign turned": rewards(lambda values: -values),
    "gradient not zeroed": keep_gradients,
    "Adam's moments of another run": before_optimizer(disturb_moments),
    "learning rate ten times": before_optimizer(ten_times),
    "the same seed in a whole group": one_seed,
}


def load(gguf: str):
    from learner.hf_tokenizer import write_tokenizer
    from learner.model import load_base
    from peft import LoraConfig, get_peft_model
    from transformers import AutoTokenizer, GenerationConfig

    model, _ = load_base(gguf, None, lambda *_: None)
    model.set_attn_implementation("sdpa")
    with tempfile.TemporaryDirectory() as folder:
        ids = write_tokenizer(gguf, Path(folder), 512)
        tokenizer = AutoTokenizer.from_pretrained(folder)
    model.generation_config = GenerationConfig(**{name: number for name, number in ids.items() if number is not None})
    return get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear")), tokenizer


def trained(gguf: str, fault: str) -> None:
    import torch
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer
    from trl_settings import AS_HONE

    torch.set_num_threads(1)
    torch.manual_seed(1)
    model, tokenizer = load(gguf)
    config = GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        use_cpu=True,
        bf16=False,
        seed=1,
        max_steps=STEPS,
        per_device_train_batch_size=GROUPS * SIZE,
        num_generations=SIZE,
        learning_rate=RATE,
        max_completion_length=24,
        **AS_HONE,
    )

    def letters(completions, **_):
        return [text.count("e") / max(1, len(text)) for text in completions]

    rows = [f"Question {i}: what is in mail {i}?" for i in range(GROUPS * STEPS)]
    trainer = GRPOTrainer(
        model=model,
        args=config,
        train_dataset=Dataset.from_dict({"prompt": rows}),
        processing_class=tokenizer,
        reward_funcs=letters,
    )
    FAULTS[fault](trainer)
    trainer.train()
    print(json.dumps({"logged": trainer.state.log_history[:-1]}), file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gguf", required=True)
    parser.add_argument("--fault", required=True, choices=FAULTS)
    options = parser.parse_args()
    said = io.StringIO()
    logging.basicConfig(stream=said, level=logging.WARNING)
    logging.captureWarnings(True)
    warnings.simplefilter("always")
    error = None
    try:
        trained(options.gguf, options.fault)
    except Exception as failure:  # whatever it is, it is what a user would see
        error = f"{type(failure).__name__}: {failure}".splitlines()[0]
    from transformers.utils import logging as theirs

    theirs.disable_propagation()
    print(json.dumps({"fault": options.fault, "error": error, "lines": sorted(set(said.getvalue().splitlines()))}))


if __name__ == "__main__":
    main()
