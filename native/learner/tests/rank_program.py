"""One rank of several that compute updates of some cases: `rank_program.py RANK WORLD FILE`, for test_ranks.py.

FILE has what to compute (torch.save): the model's file, and cases of requests for a step, some with a `fault` of the
last rank, or a loss that is `scaled`. Rank by rank, FILE.WORLD.RANK gets for each case the gradients before clipping,
the metrics and the weights afterwards, or the error. With `f64` all is computed in that: what the learner asks for as
f32 becomes f64.
"""

import os
import sys
from dataclasses import replace

import torch
from batches import VOCABULARY, open_settings
from learner import products
from learner.backend import Repeat
from learner.batch import read_batch
from learner.card import Rows, Way
from learner.errors import Refused, is_out_of_memory
from learner.fused_model import FusedModel
from learner.launched import Rank
from learner.optimizer import POLICY, SUPERVISED
from learner.ranks import join
from learner.request import SftRequest, StepRequest, read
from learner.scaling import LossScale
from learner.session import Session
from learner.sft import supervised
from learner.update import policy_update

FUSED = Way("fused layers", one_call=False, layers=False, fused=True)


def silent(*_):
    pass


def in_f64(model):
    """From now on, in this process."""
    torch.set_default_dtype(torch.float64)
    torch.float32 = torch.float64
    torch.Tensor.float = torch.Tensor.double
    # oneDNN's products are of f32 alone.
    products._fits = lambda *operands: False
    model.double()


def watched(optimizer, gradients):
    clip = optimizer.clip

    def watching(max_norm):
        gradients.append(flat([parameter.grad for parameter in optimizer.parameters]))
        return clip(max_norm)

    return watching


def compute(session, ranks, batch, message):
    gradients = []
    optimizer = session._optimizer
    optimizer.clip, clip = watched(optimizer, gradients), optimizer.clip
    if "updateTrajectories" in message:
        request, work, objective = read(SftRequest, message), supervised, SUPERVISED
    else:
        request, work, objective = read(StepRequest, message), policy_update, POLICY
    optimizer.begin(objective)
    try:
        metrics = ranks.together("step", lambda: work(session._backend, optimizer, batch, request, silent, ranks))
    except Exception as error:
        return {"error": type(error).__name__, "said": str(error), "memory": is_out_of_memory(error)}
    finally:
        optimizer.clip = clip
    for name in ("seconds", "before"):
        metrics.pop(name, None)
    return {"gradients": gradients, "metrics": metrics}


def fails(session, kind):
    """Something that goes wrong on this rank alone, once."""
    backend, optimizer = session._backend, session._optimizer
    hidden, backward, update = backend.hidden, backend.backward, optimizer.update
    left = [kind]

    def due(*kinds):
        return bool(left) and left[0] in kinds and left.pop()

    def broken_hidden(pack):
        if torch.is_grad_enabled():
            if due("death"):
                os._exit(7)
            if kind := due(*ERRORS):
                raise ERRORS[kind]()
        return hidden(pack)

    def broken_backward(states, gradient):
        backward(states, gradient * float("inf") if due("overflow") else gradient)
        if due("repeat"):
            raise Repeat

    def broken_update(rate):
        update(rate)
        if due("drift"):
            with torch.no_grad():
                optimizer.parameters[0].view(torch.int32)[0, 0] ^= 1

    def broken_way(self, row, layout):
        if due("way"):
            raise RuntimeError("no such kernel")
        return fused(self, row, layout)

    fused, FusedModel.hidden = FusedModel.hidden, broken_way
    backend.hidden, backend.backward, optimizer.update = broken_hidden, broken_backward, broken_update


ERRORS = {
    "memory": lambda: MemoryError("can't allocate memory"),
    "refused": lambda: Refused("this rank refuses"),
    "other": lambda: ValueError("of this rank"),
}


def disturbed(trainable, seed):
    """B of a new adapter is 0, and so would be A's gradient."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in trainable:
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.double) * 0.05)


def flat(tensors):
    return torch.cat([one.detach().flatten().clone() for one in tensors])


def main():
    number, world, file = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    job = torch.load(file, weights_only=False)
    batches = [read_batch(case["batch"], VOCABULARY) for case in job["cases"]]
    ranks = join(Rank(number, world, number, world), "cpu")
    session = Session(open_settings(job["model"]), silent, ranks)
    trainable = session._backend.trainable()
    if job["f64"]:
        in_f64(session._backend.model)
        batches = [replace(one, rollout=one.rollout.double(), advantages=one.advantages.double()) for one in batches]
    if job["ways"]:
        session._backend.rows = Rows((FUSED,))
    scales = {False: session._optimizer.scale, True: LossScale("f16")}
    first = session._optimizer.snapshot()
    done = []
    for batch, request in zip(batches, job["cases"], strict=True):
        session._optimizer.restore(first)
        session._optimizer.scale = scales["scaled" in request]
        disturbed(trainable, 3)
        before = flat(trainable)
        if "fault" in request and number == world - 1:
            fails(session, request["fault"])
        found = compute(session, ranks, batch, request)
        if found.get("error") == "LostRanks":
            done.append(found)
            break
        rows = session._backend.rows
        state = {"way": rows.way.name, "failed": rows.failed(), "notes": rows.notes()}
        done.append(found | state | {"before": before, "weights": flat(trainable)})
    torch.save(done, f"{file}.{world}.{number}")


if __name__ == "__main__":
    main()
