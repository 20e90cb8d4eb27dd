"""Entry of the learner's process: takes requests one after the other until hone goes away.

PyTorch is imported with the first request, so that the greeting comes at once and a missing package is an answer,
not a crash.
"""

import contextlib
import sys
import traceback
import warnings
from typing import Any

from . import protocol
from .choice import import_first
from .errors import Refused, is_out_of_memory
from .lifeline import guard

PACKAGES = ("torch", "transformers", "peft", "safetensors", "gguf")


def open_session(request: dict[str, Any], progress: protocol.Progress) -> tuple[Any, dict[str, Any]]:
    """Imports the packages and loads the model. Returns the session and what it says of itself."""
    try:
        import_first(request)
        from .session import Session
    except Refused:
        raise
    except ModuleNotFoundError as error:
        needed = ", ".join(PACKAGES)
        raise Refused(f"{sys.executable} has no {error.name}: the learner needs {needed}") from error
    except Exception as error:  # a library of the system that is missing, versions that do not go together
        log_traceback()
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise Refused(
            f"{sys.executable} cannot load the learner's packages ({reason}); install {', '.join(PACKAGES)} anew"
        ) from error
    session = Session(request, progress)
    return session, session.info


def answer(session: Any, request: dict[str, Any], progress: protocol.Progress) -> tuple[Any, dict[str, Any]]:
    kind = request.get("type")
    if kind == "open":
        if session is not None:
            raise Refused("a model is open already; start another learner for another model")
        return open_session(request, progress)
    if session is None:
        raise Refused("no model is open yet")
    if kind == "step":
        return session, session.step(request, progress)
    if kind == "sft":
        return session, session.sft(request, progress)
    raise LookupError(f"unknown request {kind!r}")


def explained(error: BaseException, kind: str | None) -> tuple[str, str]:
    """The code and the line of an error that is no refusal."""
    if not is_out_of_memory(error):
        return "failed", f"the learner failed: {type(error).__name__}: {error}"
    if kind == "open":
        return "memory", (
            "the learner's model does not fit into memory; take a smaller model, or, where engine and learner share "
            "a GPU, --learner-lifetime offload or a lower --concurrency or --context"
        )
    hint = "use a smaller --micro-batch-tokens or --gradient-checkpointing"
    return "memory", f"the update does not fit into memory; {hint}"


def let_go(error: BaseException) -> None:
    """Frees what a failed request held, before anybody is told that it failed and asks for less."""
    if "torch" not in sys.modules:
        return
    import torch

    from .memory import forget, give_back

    forget(error)
    give_back(torch.device("cuda" if torch.cuda.is_initialized() else "cpu"))


def log_traceback() -> None:
    """Where the disk of the log is full, there is none."""
    with contextlib.suppress(OSError):
        traceback.print_exc()


def main() -> None:
    guard(protocol.CONTROL_FD)
    connection = protocol.Connection()
    connection.start()
    # What libraries say to each other about their next versions is no news to whoever reads the log.
    warnings.simplefilter("ignore", FutureWarning)
    session = None
    for request in connection.requests():
        number = request["id"]

        def progress(phase: str, done: int, total: int, number: int = number) -> None:
            connection.send({"type": "progress", "id": number, "phase": phase, "done": done, "total": total})

        def fail(code: str, message: str, number: int = number) -> None:
            connection.send({"type": "error", "id": number, "code": code, "message": message})

        try:
            session, result = answer(session, request, progress)
        except Refused as error:
            fail("refused", str(error))
        except LookupError as error:
            log_traceback()
            fail("protocol" if "unknown request" in str(error) else "failed", f"{type(error).__name__}: {error}")
        except Exception as error:  # the process goes on: hone decides what becomes of it
            log_traceback()
            let_go(error)
            fail(*explained(error, request.get("type")))
        else:
            connection.send({"type": "done", "id": number, "result": result})


if __name__ == "__main__":
    main()
