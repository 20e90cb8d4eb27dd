"""One rank of several of a learner that starts, updates and writes checkpoints: `session_program.py RANK WORLD FILE`.

FILE has settings, requests, and the number of ranks that have parts of the weights or None (torch.save). Rank by rank,
FILE.WORLD.RANK gets what the session says about itself, the metrics, and the bytes of all tensors after loading and
between updates; or the error.
"""

import gc
import sys

import torch
from learner.errors import Refused
from learner.launched import Rank
from learner.session import Session
from learner.sharded_ranks import join


def silent(*_):
    pass


def bytes_of_tensors():
    gc.collect()
    found = {}
    for one in gc.get_objects():
        if isinstance(one, torch.Tensor) and one.device.type == "cpu":
            local = one.to_local() if hasattr(one, "to_local") else one
            storage = local.detach().untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
    return sum(found.values())


def main():
    number, world, file = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    job = torch.load(file, weights_only=False)
    try:
        ranks = join(Rank(number, world, number, world), "cpu", job["shards"])
        session = ranks.together("open", lambda: Session(job["settings"] | {"shards": job["shards"]}, silent, ranks))
        done = {"info": session.info, "loaded": bytes_of_tensors(), "metrics": []}
        for kind, request in job["requests"]:
            done["metrics"].append(getattr(session, kind)(request, silent))
        done["between"] = bytes_of_tensors()
    except Refused as error:
        done = {"refused": str(error)}
    torch.save(done, f"{file}.{world}.{number}")


if __name__ == "__main__":
    main()
