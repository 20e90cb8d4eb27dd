"""Log-probabilities of given tokens by transformers, in float32, for huggingface.test.ts.

Reads one JSON object from stdin: {"cases": [{"model": HF folder, "adapter": PEFT folder or null, "tokens": [ids]}]}.
Prints {"logprobs": [[...]]}: for each case, the log-probability of every token but the first, given those before it.
"""

import json
import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging

logging.disable_progress_bar()


def load(model: str, adapter: str | None) -> PreTrainedModel:
    base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    return PeftModel.from_pretrained(base, adapter) if adapter else base


@torch.inference_mode()
def logprobs(model: PreTrainedModel, tokens: list[int]) -> list[float]:
    ids = torch.tensor([tokens])
    scores = torch.log_softmax(model(ids).logits[0, :-1], dim=-1)
    return scores.gather(1, ids[0, 1:, None])[:, 0].tolist()


def main() -> None:
    loaded: dict[tuple[str, str | None], PreTrainedModel] = {}
    answers = []
    for case in json.load(sys.stdin)["cases"]:
        key = (case["model"], case["adapter"])
        if key not in loaded:
            loaded[key] = load(*key)
        answers.append(logprobs(loaded[key], case["tokens"]))
    print(json.dumps({"logprobs": answers}))


if __name__ == "__main__":
    main()
