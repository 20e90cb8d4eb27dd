"""The gradient of one batch in each precision, for the test beside this file: prints one line of JSON.

python precision.py MODEL.gguf BATCH.safetensors
"""

import json
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "native"), str(ROOT / "native" / "learner" / "tests")]
warnings.simplefilter("ignore")

import torch  # noqa: E402
from batches import open_settings, step_settings  # noqa: E402
from learner.backend import LINEAR_LAYERS  # noqa: E402
from learner.batch import read_batch  # noqa: E402
from learner.session import Session  # noqa: E402
from learner.update import policy_update  # noqa: E402

LORA = {"rank": 16, "alpha": 32, "targets": list(LINEAR_LAYERS)}


def gradient(model: str, batch: str, precision: str):
    """The update's gradient, and its metrics. The weights of a new adapter depend on the seed alone."""
    session = Session(open_settings(model, precision=precision, lora=LORA), lambda *_: None)
    optimizer, found = session._optimizer, []
    clip = optimizer.clip

    def noting(max_norm):
        norm = clip(max_norm)
        found.append(torch.cat([parameter.grad.flatten() for parameter in optimizer.parameters]).double())
        return norm

    optimizer.clip = noting
    request = step_settings(batch, "", maxGradNorm=1e9, learningRate=0.0)
    tokens = read_batch(batch, session._backend.vocabulary)
    return found, policy_update(session._backend, optimizer, tokens, request, lambda *_: None)


def main() -> None:
    model, batch = sys.argv[1:]
    results, exact = {}, None
    for precision in ("f32", "f16", "bf16"):
        found, metrics = gradient(model, batch, precision)
        exact = found[-1] if exact is None else exact
        # Not cosine_similarity, which is none of gradients below 1e-4: those of a model that is sure of its tokens.
        cosine = (found[-1] / found[-1].norm() @ (exact / exact.norm())).item()
        results[precision] = {
            "cosine": cosine,
            "mismatch": metrics["mismatch"]["mean"],
            "overflows": metrics["overflows"],
        }
    print(json.dumps(results))


main()
