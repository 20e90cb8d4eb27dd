"""What transformers computes for questions.jsonl: the log-probability of each choice, in nats, and 12 greedy tokens.

Arguments: the model's folder, and questions.jsonl. Prints one JSON object.
"""

import json
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

folder, questions = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def ids(text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def score(question: str, choice: str) -> float:
    start, whole = len(ids(question)), torch.tensor([ids(question + choice)])
    logprobs = torch.log_softmax(model(whole).logits[0, :-1], -1)
    return logprobs[range(start - 1, len(whole[0]) - 1), whole[0, start:]].sum().item()


def text(question: str) -> str:
    prompt = torch.tensor([ids(question)])
    out = model.generate(prompt, max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=0)
    return tokenizer.decode(out[0, prompt.shape[1] :], skip_special_tokens=True)


with torch.no_grad(), open(questions) as lines:
    rows = [json.loads(line) for line in lines]
    scores = [[score(row["question"], choice) for choice in row["choices"]] for row in rows]
    texts = [text(row["question"]) for row in rows]
json.dump({"choices": scores, "texts": texts}, sys.stdout)
