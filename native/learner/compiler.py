"""PyTorch's compiler: how hone uses it, and what its errors say to a user."""

import functools
import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COMPILED: dict[str, Any] = {"dynamic": True, "fullgraph": True}
"""Options of torch.compile. Dynamic shapes, so that rows of all lengths share their code."""
VARIANTS = 64
"""Most variants of one function's code: with and without gradients, adapters and checkpoints, in each precision. With
fullgraph one more than PyTorch's limit, which is 8, is an error."""
TOOLCHAIN = "Triton compiles with a C compiler and Python's headers (apt install gcc python3-dev)"
_SOURCES = (".c", ".cc", ".cpp")
_DETAILS = "Developer debug context:", "Explanation:"
"""PyTorch's compiler says behind one of them what it could not trace."""


KEPT = "TORCHINDUCTOR_CACHE_DIR"
"""Names the folder in which PyTorch keeps what it has compiled, for later processes (src/core/learn/environment.ts).
Its keys have the card, the versions of PyTorch and Triton, and the code that was compiled."""


def prepare() -> str | None:
    """Must be called before anything is compiled. Returns why nothing is kept for later processes, in one line."""
    # Imported here: on a CPU nothing needs the compiler.
    from torch._dynamo import config as dynamo
    from torch.compiler import config as caches
    from torch.fx.experimental import _config as shapes

    # In PyTorch's keys hone's own operations (operations.py) are names alone, but their gradients and the shapes of
    # their outputs are part of what is compiled: another hone would go on with those of this one.
    caches.cache_key_tag = _version()

    # Numbers such as a norm's epsilon are constants of compiled code. With dynamic shapes they would be inputs,
    # and where activations are computed twice tensors that are written and kept.
    dynamo.specialize_float = True
    dynamo.recompile_limit = VARIANTS
    # Sizes that are equal in the first row need not be in others. Otherwise a row as long as the model is wide would
    # make code for rows of that length alone.
    shapes.use_duck_shape = False
    return _why_not_kept()


@functools.cache
def _version() -> str:
    """Of all that is traced."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _why_not_kept() -> str | None:
    """Leaves the choice of a folder to PyTorch where hone's cannot be written: otherwise nothing could be compiled."""
    if (folder := os.environ.get(KEPT)) is None:
        return None
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        del os.environ[KEPT]
        return f"{folder} cannot be written ({error.strerror})"


def without_damaged() -> int:
    """Removes kept files that are cut short, as where a machine lost its power, and forgets what was loaded: PyTorch
    reads a file that is there as it is, and never writes it again. Returns how many they were."""
    from torch._inductor.utils import clear_caches
    from torch.compiler import reset

    folder = os.environ.get(KEPT)
    files = [] if folder is None else [one for one in Path(folder).rglob("*") if one.is_file()]
    # Hidden ones are being written.
    damaged = [one for one in files if not (one.name.startswith(".") or _whole(one))]
    for one in damaged:
        one.unlink(missing_ok=True)
    if damaged:
        reset()
        clear_caches()
    return len(damaged)


def _whole(file: Path) -> bool:
    try:
        content = file.read_bytes()
        if file.suffix == ".py":
            compile(content, str(file), "exec")
        elif file.suffix == ".json":
            json.loads(content)
    except (OSError, SyntaxError, ValueError):
        return False
    return len(content) > 0 or file.suffix == ".lock"


def reason(error: BaseException) -> str:
    """The innermost cause that has a text, in one line."""
    said = [one for one in _causes(error) if str(one).strip()]
    innermost = said[-1] if said else error
    return f"{type(innermost).__name__}: {_line(str(innermost))}".removesuffix(": ")[:300]


def missing_toolchain(error: BaseException) -> str | None:
    """In one line what Triton lacks on this machine to compile anything; None for any other error."""
    # Innermost first: the others repeat its text.
    for one in reversed([*_causes(error)]):
        text = str(one)
        if type(one).__name__ == "TritonMissing":
            return f"Triton is not installed, or cannot be loaded; {TOOLCHAIN}"
        if "Failed to find C compiler" in text:
            return f"there is no C compiler; {TOOLCHAIN}"
        if isinstance(one, subprocess.CalledProcessError) and (compiler := _compiler(one.cmd)):
            return f"{compiler} fails (exit status {one.returncode}); {TOOLCHAIN}"
        # Compilation in a process of its own hands on the text alone.
        if "CalledProcessError" in text and any(f"{end}'" in text for end in _SOURCES):
            return f"the C compiler fails; {TOOLCHAIN}"
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Outermost first. PyTorch's compiler wraps errors, and has the wrapped one in an attribute."""
    known: set[int] = set()
    while error is not None and id(error) not in known:
        known.add(id(error))
        yield error
        inner = getattr(error, "inner_exception", None)
        error = inner if isinstance(inner, BaseException) else error.__cause__


def _line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    # Another process hands on a traceback, whose last line is the error.
    if any(line.startswith("Traceback (most recent call last)") for line in lines):
        return lines[-1]
    first = f"{lines[0]} {lines[1]}" if lines[0].endswith(":") and len(lines) > 1 else lines[0]
    details = (line.removeprefix(word).strip() for word in _DETAILS for line in lines if line.startswith(word))
    detail = next(filter(None, details), "")
    return f"{first} ({detail})" if detail else first


def _compiler(command: Any) -> str | None:
    """Name of the program, if it compiles C."""
    words = [str(word) for word in (command.split() if isinstance(command, str) else command)]
    return Path(words[0]).name if any(word.endswith(_SOURCES) for word in words) else None
