"""TRL's GRPOTrainer on the email task: what `yarn train` does in bench/notebook/main.ts, with the same model, adapter,
questions, tools and reward (task-server.ts), in f32 on the CPU. Prints a line of JSON at the end.

The model's own chat template has no tools. As hone does with `--tool-format hermes`, this writes calls in the form of
Qwen2.5, whose reading TRL knows, and results as messages of the role "tool"; the questions' system message has the
tools, word for word as in hone's rollouts. A small model writes no call that runs where these differ.
return_final_answer ends no rollout here: TRL has no such tool.

    python trl_side.py --gguf MODEL.gguf --adapter FOLDER --server URL --questions FILE --groups 2 --size 4 ...
"""

import argparse
import json
import os
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import ClassVar

sys.path[:0] = [str(Path(__file__).parents[2] / "native"), str(Path(__file__).parents[1])]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gguf", required=True)
    parser.add_argument("--adapter", required=True, help="folder in PEFT's format")
    parser.add_argument("--server", required=True)
    parser.add_argument("--questions", required=True, help="JSON: a list of {id, messages}, in order of training")
    parser.add_argument("--groups", type=int, required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--pass-size", type=int, required=True, help="rollouts of a forward and backward pass")
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--max-grad-norm", type=float, required=True)
    parser.add_argument("--max-turns", type=int, required=True)
    parser.add_argument("--max-tokens", type=int, required=True, help="of a turn")
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    return parser.parse_args()


OPTIONS = parse()

TEMPLATE = """{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') }}
{%- for call in message.tool_calls or [] %}
{%- set call = call.function or call %}
{{- '\\n' if message.content or not loop.first }}
{{- '<tool_call>\\n{"name": "' + call.name + '", "arguments": ' + (call.arguments | tojson) + '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}"""
"""SmolLM2's, with calls."""


class Mailbox:
    """A rollout's environment: TRL calls `reset`, then the public methods as tools, then `get_reward`."""

    finished: ClassVar[list[bool]] = []
    """Success of the rollouts of the current step."""

    def reset(self, scenario: str, **_) -> None:
        self._scenario, self._calls = scenario, []

    def search_inbox(
        self,
        keywords: list[str],
        from_addr: str | None = None,
        to_addr: str | None = None,
        sent_after: str | None = None,
        sent_before: str | None = None,
        max_results: int | None = None,
    ) -> str:
        """
        Search the subjects and texts of the user's mails.

        Args:
            keywords: A few telling words or short phrases.
            from_addr: Sender's address.
            to_addr: A recipient's address.
            sent_after: First day, YYYY-MM-DD.
            sent_before: Last day, YYYY-MM-DD.
            max_results: At most 10.
        """
        given = dict(keywords=keywords, from_addr=from_addr, to_addr=to_addr)
        given |= dict(sent_after=sent_after, sent_before=sent_before, max_results=max_results)
        return self._call("search_inbox", {name: value for name, value in given.items() if value is not None})

    def read_email(self, message_id: str) -> str:
        """
        Read one mail of the user.

        Args:
            message_id: From search_inbox.
        """
        return self._call("read_email", {"message_id": message_id})

    def return_final_answer(self, answer: str, reference_message_ids: list[str]) -> str:
        """
        Answer the user's question. Ends the search.

        Args:
            answer: The answer.
            reference_message_ids: Mails that hold the answer.
        """
        given = {"answer": answer, "reference_message_ids": reference_message_ids}
        return self._call("return_final_answer", given)

    def get_reward(self) -> float:
        """From 0 to 1, as the scripted judge of bench/scripted-judge.ts scores."""
        asked = {"scenario": self._scenario, "maxTurns": OPTIONS.max_turns, "calls": self._calls}
        graded = post("reward", asked)
        Mailbox.finished.append(graded["success"])
        return min(1.0, max(0.0, (graded["reward"] + 0.1) / 1.1))

    def _call(self, name: str, given: dict) -> str:
        result = post("call", {"scenario": self._scenario, "name": name, "arguments": given})
        self._calls.append({"name": name, "arguments": given, "result": result})
        return json.dumps(result, ensure_ascii=False, separators=(",", ":"))


def post(path: str, body: dict):
    request = urllib.request.Request(f"{OPTIONS.server}/{path}", json.dumps(body).encode())
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def load_model():
    """Model with its adapter, and tokenizer."""
    import trl.chat_template_utils
    from learner.hf_tokenizer import write_tokenizer
    from learner.model import load_base
    from peft import PeftModel
    from transformers import AutoTokenizer, GenerationConfig

    model, _ = load_base(OPTIONS.gguf, None, lambda *_: None)
    model.set_attn_implementation("sdpa")
    with tempfile.TemporaryDirectory() as folder:
        ids = write_tokenizer(OPTIONS.gguf, Path(folder), OPTIONS.context)
        tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = trl.chat_template_utils.qwen2_5_chat_template
    tokenizer = trl.chat_template_utils.add_response_schema(tokenizer)
    tokenizer.chat_template = TEMPLATE
    model.generation_config = GenerationConfig(**{name: number for name, number in ids.items() if number is not None})
    return PeftModel.from_pretrained(model, OPTIONS.adapter, is_trainable=True), tokenizer


def main() -> None:
    os.environ.update(OMP_NUM_THREADS=str(OPTIONS.threads), HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1")
    import torch
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer
    from trl_settings import AS_HONE, UNTRUNCATED

    torch.set_num_threads(OPTIONS.threads)
    # As hone's learner: numbers below 1.2e-38 are slow.
    torch.set_flush_denormal(True)
    model, tokenizer = load_model()
    questions = json.loads(Path(OPTIONS.questions).read_text())
    rows = {"prompt": [one["messages"] for one in questions], "scenario": [one["id"] for one in questions]}
    longest = OPTIONS.context - max(len(tokenizer.apply_chat_template(one, tokenize=True)) for one in rows["prompt"])
    config = GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        use_cpu=True,
        bf16=False,
        seed=OPTIONS.seed,
        max_steps=len(questions) // OPTIONS.groups,
        per_device_train_batch_size=OPTIONS.pass_size,
        gradient_accumulation_steps=OPTIONS.groups * OPTIONS.size // OPTIONS.pass_size,
        num_generations=OPTIONS.size,
        shuffle_dataset=False,
        learning_rate=OPTIONS.learning_rate,
        max_grad_norm=OPTIONS.max_grad_norm,
        # TRL's own limit is one of all turns together.
        max_completion_length=longest,
        generation_kwargs={"max_new_tokens": OPTIONS.max_tokens},
        max_tool_calling_iterations=OPTIONS.max_turns,
        **AS_HONE,
        **UNTRUNCATED,
    )

    class Steps(TrainerCallback):
        lines: ClassVar[list[dict]] = []
        started = time.monotonic()

        def on_log(self, args, state, control, logs=None, **_):
            if "completions/mean_length" not in (logs or {}):
                return
            done, Mailbox.finished = Mailbox.finished, []
            line = {"seconds": time.monotonic() - self.started, "success": sum(done) / len(done)}
            # Tokens that the model was given or wrote, as TRL counts them; tool results are in the completions.
            line |= {"tokens": logs["num_tokens"], "reward": logs["reward"], "grad_norm": logs["grad_norm"]}
            Steps.lines.append(line)
            Steps.started = time.monotonic()
            print(json.dumps(line), file=sys.stderr, flush=True)

    trainer = GRPOTrainer(
        model=model,
        args=config,
        train_dataset=Dataset.from_dict(rows),
        processing_class=tokenizer,
        environment_factory=Mailbox,
        callbacks=[Steps()],
    )
    Steps.started = time.monotonic()
    trainer.train()
    print(json.dumps({"steps": Steps.lines}))


if __name__ == "__main__":
    main()
