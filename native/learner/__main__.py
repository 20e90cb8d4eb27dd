"""Entry of the learner's process: handles requests one after the other until hone closes the pipe.

PyTorch is imported with the first request, so that the greeting is sent at once and a missing package is an error
message, not a crash.
"""

import contextlib
import gc
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

from . import protocol
from .choice import import_first
from .compiler import missing_toolchain
from .errors import Misunderstood, Refused, is_out_of_memory
from .launched import Rank, enter
from .lifeline import guard
from .request import OpenRequest, StepRequest, read_request

PACKAGES = ("torch", "transformers", "peft", "safetensors", "gguf")


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Imports leave no garbage, and looking for it in all that they make takes a seventh of their time. What is there
    at the end lives as long as the process: later collections leave it out."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def open_session(request: OpenRequest, progress: protocol.Progress, rank: Rank) -> tuple[Any, dict[str, Any]]:
    """Imports the packages, waits for the other ranks and loads the model. Returns the session and its facts."""
    # Seconds where the disk is fast and cores are free, minutes where they are not.
    progress("starting PyTorch", 0, 0)
    try:
        with uncollected():
            import_first(request, rank.world)
            from .ranks import join
            from .session import Session
    except Refused:
        raise
    except ModuleNotFoundError as error:
        needed = ", ".join(PACKAGES)
        raise Refused(f"{sys.executable} has no {error.name}: the learner needs {needed}") from error
    except Exception as error:  # a missing system library, incompatible versions
        log_traceback()
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise Refused(
            f"{sys.executable} cannot load the learner's packages ({reason}); install {', '.join(PACKAGES)} anew"
        ) from error
    ranks = join(rank, request.device)
    session = ranks.together("open", lambda: Session(request, progress, ranks))
    return session, session.info


def answer(
    session: Any, message: dict[str, Any], progress: protocol.Progress, rank: Rank
) -> tuple[Any, dict[str, Any]]:
    request = read_request(message)
    if isinstance(request, OpenRequest):
        if session is not None:
            raise Refused("a model is open already; start another learner for another model")
        return open_session(request, progress, rank)
    if session is None:
        raise Refused("no model is open yet")
    work = session.step if isinstance(request, StepRequest) else session.sft
    return session, work(request, progress)


def explained(error: BaseException, kind: str | None) -> tuple[str, str]:
    """The code and the message of an error other than a refusal."""
    if not is_out_of_memory(error):
        # Of what can do without a compiler: card.py does.
        lacks = missing_toolchain(error)
        if lacks is not None:
            return "refused", f"the learner cannot compute on this machine: {lacks}"
        return "failed", f"the learner failed: {type(error).__name__}: {error}"
    if kind == "open":
        return "memory", (
            "the learner's model does not fit into memory; take a smaller model, or, where engine and learner share "
            "a GPU, --learner-lifetime offload or a lower --concurrency or --context"
        )
    hint = "use a smaller --micro-batch-tokens or --gradient-checkpointing"
    return "memory", f"the update does not fit into memory; {hint}"


def drop(error: BaseException) -> None:
    """Clears what a failed request computed; the exception itself keeps the rest, until its `except` ends."""
    if "torch" in sys.modules:
        from .memory import forget

        forget(error)


def let_go() -> None:
    """Returns a failed request's memory before its failure is reported and a smaller request may come."""
    if "torch" in sys.modules:
        import torch

        from .memory import give_back

        give_back(torch.device("cuda" if torch.cuda.is_initialized() else "cpu"))


def end_if_lost(error: BaseException, connection: protocol.Connection) -> None:
    """A rank without the others says so, and is ended by the process that launched them all (launch.py)."""
    if type(error).__name__ != "LostRanks":
        return
    print(error, file=sys.stderr, flush=True)
    connection.send({"type": "lost", "message": str(error)})
    while True:
        time.sleep(60)


def log_traceback() -> None:
    """Without a log where its disk is full."""
    with contextlib.suppress(OSError):
        traceback.print_exc()


def main() -> None:
    rank = enter(protocol.CONTROL_FD, protocol.REPORT_FD)
    guard(protocol.CONTROL_FD, half=rank.launched)
    connection = protocol.Connection()
    connection.start()
    # Deprecation warnings of libraries are not useful in the log.
    warnings.simplefilter("ignore", FutureWarning)
    session = None
    for message in connection.requests():
        number = message["id"]

        def progress(phase: str, done: int, total: int, number: int = number) -> None:
            connection.send({"type": "progress", "id": number, "phase": phase, "done": done, "total": total})

        def fail(code: str, message: str, number: int = number) -> None:
            connection.send({"type": "error", "id": number, "code": code, "message": message})

        failure: tuple[str, str] | None = None
        try:
            session, result = answer(session, message, progress, rank)
        except Refused as error:
            fail("protocol" if isinstance(error, Misunderstood) else "refused", str(error))
        except Exception as error:  # the process continues: hone decides what to do
            if rank.world > 1:
                end_if_lost(error, connection)
            log_traceback()
            failure = explained(error, message.get("type"))
            drop(error)
        else:
            connection.send({"type": "done", "id": number, "result": result})
        if failure is not None:
            let_go()
            fail(*failure)


if __name__ == "__main__":
    main()
