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
from .errors import Refused
from .lifeline import guard

PACKAGES = ("torch", "transformers", "peft", "safetensors", "gguf")


def open_session(request: dict[str, Any], progress: protocol.Progress) -> tuple[Any, dict[str, Any]]:
    """Imports the packages and loads the model. Returns the session and what it says of itself."""
    try:
        from .session import Session
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


def is_out_of_memory(error: BaseException) -> bool:
    """CUDA has a type for it, the CPU allocator only a sentence."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "can't allocate memory" in str(error)
    )


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
            if is_out_of_memory(error):
                hint = "use a smaller --micro-batch-tokens or --gradient-checkpointing"
                fail("memory", f"the update does not fit into memory; {hint}")
            else:
                fail("failed", f"the learner failed: {type(error).__name__}: {error}")
        else:
            connection.send({"type": "done", "id": number, "result": result})


if __name__ == "__main__":
    main()
