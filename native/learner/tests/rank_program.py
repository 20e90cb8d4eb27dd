"""One rank of several that compute updates of some cases: `rank_program.py RANK WORLD FILE`, for test_ranks.py.

FILE has what to compute (torch.save): the model's file, and cases of requests for a step. Rank by rank, FILE.WORLD.RANK
gets for each case the gradients before clipping, the metrics and the weights afterwards, or the error. With `f64` all
is computed in that: what the learner asks for as f32 becomes f64.
"""

import sys
from dataclasses import replace

import torch
from batches import VOCABULARY, open_settings
from learner.batch import read_batch
from learner.launched import Rank
from learner.optimizer import POLICY
from learner.ranks import join
from learner.session import Session
from learner.update import policy_update


def silent(*_):
    pass


def in_f64(model):
    """From now on, in this process."""
    torch.set_default_dtype(torch.float64)
    torch.float32 = torch.float64
    torch.Tensor.float = torch.Tensor.double
    model.double()


def watched(optimizer, gradients):
    clip = optimizer.clip

    def watching(max_norm):
        gradients.append(torch.cat([parameter.grad.flatten().clone() for parameter in optimizer.parameters]))
        return clip(max_norm)

    return watching


def compute(session, ranks, batch, request):
    gradients = []
    optimizer = session._optimizer
    optimizer.clip, clip = watched(optimizer, gradients), optimizer.clip
    optimizer.begin(POLICY)
    try:
        metrics = ranks.together(
            "step", lambda: policy_update(session._backend, optimizer, batch, request, silent, ranks)
        )
    finally:
        optimizer.clip = clip
    metrics.pop("seconds")
    return {"gradients": gradients, "metrics": metrics}


def disturbed(trainable, seed):
    """B of a new adapter is 0, and so would be A's gradient."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in trainable:
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.double) * 0.05)


def main():
    number, world, file = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    job = torch.load(file, weights_only=False)
    ranks = join(Rank(number, world, number, world), "cpu")
    session = Session(open_settings(job["model"]), silent, ranks)
    trainable = session._backend.trainable()
    batches = [read_batch(case["batch"], VOCABULARY) for case in job["cases"]]
    if job["f64"]:
        in_f64(session._backend.model)
        # The check of Adam's step is for f32: `double` copies nothing here.
        session._optimizer._bits = 64
        batches = [replace(one, rollout=one.rollout.double(), advantages=one.advantages.double()) for one in batches]
    first = session._optimizer.snapshot()
    done = []
    for batch, request in zip(batches, job["cases"], strict=True):
        session._optimizer.restore(first)
        disturbed(trainable, 3)
        found = compute(session, ranks, batch, request)
        done.append(found | {"weights": torch.cat([one.detach().flatten() for one in trainable])})
    torch.save(done, f"{file}.{world}.{number}")


if __name__ == "__main__":
    main()
