"""Products of a frozen matrix of the 0.5B shape with 1,536 tokens on a CPU, by the type of the factors.

Prints one JSON object: by type the milliseconds of each round [rounds], and the relative difference (root mean square)
from f32. 8 bits are whole numbers, scaled by the greatest of each token and of each output; the weights are rounded
before.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parents[2] / "native")]

TOKENS, HIDDEN, INNER = 1536, 896, 4864


def in_8_bits(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scale = rows.abs().amax(1, keepdim=True) / 127
    return (rows / scale).round().to(torch.int8), scale


def sides(x: torch.Tensor, weight: torch.Tensor) -> dict[str, Callable[[], torch.Tensor]]:
    whole, scale = in_8_bits(weight)

    def product_in_8_bits() -> torch.Tensor:
        numbers, scales = in_8_bits(x)
        return torch._int_mm(numbers, whole.T).float() * scales * scale.T

    def halved(dtype: torch.dtype) -> Callable[[], torch.Tensor]:
        narrow = weight.to(dtype)
        return lambda: (x.to(dtype) @ narrow.T).float()

    return {
        "f32": lambda: x @ weight.T,
        "bf16": halved(torch.bfloat16),
        "f16": halved(torch.float16),
        "int8": product_in_8_bits,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    from learner.products import choose_products

    choose_products()
    torch.manual_seed(0)
    x, weight = torch.randn(TOKENS, HIDDEN), torch.randn(INNER, HIDDEN) / HIDDEN**0.5
    products = sides(x, weight)
    exact = products["f32"]()
    results = {
        name: {"difference": float((product() - exact).norm() / exact.norm()), "milliseconds": []}
        for name, product in products.items()
    }
    for _ in range(chosen.rounds):
        for name, product in products.items():
            start = time.perf_counter()
            product()
            results[name]["milliseconds"].append(1000 * (time.perf_counter() - start))
    print(json.dumps(results))


main()
