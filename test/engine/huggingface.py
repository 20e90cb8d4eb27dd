"""Log-probabilities of given tokens by transformers, in float32, and what rounding in 16 or 8 bits does to them.

Reads one JSON object from stdin: {"cases": [{"model": HF folder, "adapter": PEFT folder or null, "weights": "f32" (also
when it is left out), "f16" or "q8_0", "sums": "f32" (also when it is left out) or "f16", "tokens": [ids]}]}. Prints
{"logprobs": [[...]], "rounded": [[...]]}: for each case, the log-probability of every token but the first, given those
before it.

`logprobs` is exact: float32 everywhere, on weights that were rounded to q8_0 where these are asked for.
`rounded` is the same with the operands of its products rounded as a CPU kernel of llama.cpp may: the input of a linear
layer to the type of its weights, queries, keys, values and attention's weights to float16, in which the KV cache holds
them. With f32 weights nothing is rounded but GELU, which llama.cpp has as a table of float16's numbers on a CPU. With
sums in f16 a linear layer's are added as a GPU's kernels for many rows may: product after product, in float16; and
attention's products and result are rounded to it.
"""

import json
import os
import sys
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from peft import PeftModel
from torch import Tensor, nn
from transformers import AttentionInterface, AutoModelForCausalLM, PreTrainedModel
from transformers.activations import GELUTanh
from transformers.utils import logging

logging.disable_progress_bar()


def to_f16(values: Tensor) -> Tensor:
    return values.half().float()


def to_q8_0(values: Tensor) -> Tensor:
    """Blocks of 32 numbers: whole numbers up to 127, times one float16."""
    blocks = values.reshape(*values.shape[:-1], -1, 32)
    scale = blocks.abs().amax(-1, keepdim=True) / 127
    whole = torch.round(blocks / scale.clamp_min(torch.finfo(torch.float32).tiny))
    return (whole * to_f16(scale)).reshape(values.shape)


ROUND: dict[str, Callable[[Tensor], Tensor]] = {"f16": to_f16, "q8_0": to_q8_0}
rounding = False
"""Whether attention rounds."""
rounding_sums = False
"""Whether its sums are rounded too."""


def product_in_f16(inputs: Tensor, weight: Tensor) -> Tensor:
    total = torch.zeros(*inputs.shape[:-1], weight.shape[0])
    for column in range(weight.shape[1]):
        total = to_f16(total + inputs[..., column, None] * weight[:, column])
    return total


def attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask, scaling: float, sliding_window=None, **_
):
    operand = to_f16 if rounding else lambda values: values
    sums = to_f16 if rounding_sums else lambda values: values
    key, value = (states.repeat_interleave(module.num_key_value_groups, dim=1) for states in (key, value))
    hidden = torch.full(query.shape[-2:-1] * 2, -torch.inf).triu(1)
    if sliding_window is not None:
        hidden += torch.full_like(hidden, -torch.inf).tril(-sliding_window)
    scores = sums(operand(query) @ operand(key).transpose(2, 3)) * scaling + hidden
    return sums(operand(scores.softmax(-1)) @ operand(value)).transpose(1, 2).contiguous(), None


AttentionInterface.register("hone_test", attention)


def load(model: str, adapter: str | None, weights: str) -> PreTrainedModel:
    base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation="hone_test")
    if weights == "q8_0":
        for parameter in base.parameters():
            if parameter.dim() == 2:
                parameter.data = to_q8_0(parameter.data)
    return PeftModel.from_pretrained(base, adapter) if adapter else base


@torch.inference_mode()
def logprobs(model: PreTrainedModel, tokens: list[int]) -> list[float]:
    ids = torch.tensor([tokens])
    scores = torch.log_softmax(model(ids, use_cache=False).logits[0, :-1], dim=-1)
    return scores.gather(1, ids[0, 1:, None])[:, 0].tolist()


def rounded_logprobs(model: PreTrainedModel, weights: str, sums: str, tokens: list[int]) -> list[float]:
    global rounding, rounding_sums
    hooks = []
    for activation in (module for module in model.modules() if isinstance(module, GELUTanh)):
        hooks.append(activation.register_forward_pre_hook(lambda _, args: to_f16(args[0])))
        hooks.append(activation.register_forward_hook(lambda _, __, result: to_f16(result)))
    # An adapter's own matrices are f32.
    linears = [layer for name, layer in model.named_modules() if isinstance(layer, nn.Linear) and "lora_" not in name]
    if weights in ROUND:
        hooks += [layer.register_forward_pre_hook(lambda _, args: ROUND[weights](args[0])) for layer in linears]
    if sums == "f16":

        def add(layer: nn.Linear, args: tuple[Tensor], _: Tensor) -> Tensor:
            result = product_in_f16(args[0], to_f16(layer.weight))
            return result if layer.bias is None else result + layer.bias

        hooks += [layer.register_forward_hook(add) for layer in linears]
    rounding, rounding_sums = weights in ROUND, sums == "f16"
    try:
        return logprobs(model, tokens)
    finally:
        rounding = rounding_sums = False
        for hook in hooks:
            hook.remove()


def main() -> None:
    loaded: dict[tuple[str, str | None, str], PreTrainedModel] = {}
    exact: dict[tuple, list[float]] = {}
    rounded: dict[tuple, list[float]] = {}
    answers = {"logprobs": [], "rounded": []}
    for case in json.load(sys.stdin)["cases"]:
        weights = case.get("weights", "f32")
        # The test models' weights are numbers that float16 holds.
        model = (case["model"], case["adapter"], "q8_0" if weights == "q8_0" else "f32")
        if model not in loaded:
            loaded[model] = load(*model)
        # Conversations are often the same under two libraries or weight types.
        tokens = (*model, *case["tokens"])
        if tokens not in exact:
            exact[tokens] = logprobs(loaded[model], case["tokens"])
        answers["logprobs"].append(exact[tokens])
        how = (weights, case.get("sums", "f32") if weights in ROUND else "f32", tokens)
        if how not in rounded:
            rounded[how] = rounded_logprobs(loaded[model], *how[:2], case["tokens"])
        answers["rounded"].append(rounded[how])
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
