"""Makes a CUDA build of PyTorch load on a machine without a GPU, without the CUDA libraries (2 GB download, 4 GB disk).

PyPI's Linux wheels of PyTorch are CUDA builds. On a machine without a GPU they never call CUDA, but the dynamic loader
requires every library they name, with every symbol they use. So this script, run by hone's installer when no CPU build
is available, puts one small stub library beside PyTorch's own, under all those names. Its runtime API returns
what the real one returns without a device (cudaErrorNoDevice); any other call ends the process with a message.
PyTorch's metadata then no longer requires the NVIDIA packages, so that pip does not fetch them later.

Does nothing to a CPU build. Run it with the interpreter of the environment that has PyTorch:

    .venv/bin/python native/learner/cpu_torch.py
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

GPU_PACKAGES = re.compile(r"Requires-Dist:\s*(nvidia-|cuda-|triton\b)", re.IGNORECASE)
GPU_LIBRARIES = re.compile(r"lib(cu|nv|nccl)")
GPU_SYMBOLS = re.compile(r"(__)?(cu[A-Z]|cuda|cublas|cudnn|cufft|cupti|curand|cusolver|cusparse|nccl|nv)")
# The driver's own library; PyTorch loads libraries linked to it only when there is a GPU.
DRIVER = "libcuda.so.1"
STAND_IN = "libhone_no_cuda.so"

SHT_DYNAMIC = 6
SHT_DYNSYM = 11
DT_NEEDED = 1


@dataclass(frozen=True)
class Library:
    """Symbols and libraries that a shared library (ELF, 64-bit, little-endian) needs, and those it provides."""

    needed: frozenset[str]
    undefined: frozenset[str]
    defined: frozenset[str]


def read_library(path: Path) -> Library:
    """Reads the dynamic section and the dynamic symbols; for the layout see elf(5)."""
    with path.open("rb") as file:
        header = file.read(64)
        if header[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path} is no 64-bit little-endian ELF library")
        (table,) = struct.unpack_from("<Q", header, 0x28)
        entry_size, count = struct.unpack_from("<HH", header, 0x3A)

        def read(offset: int, size: int) -> bytes:
            file.seek(offset)
            return file.read(size)

        raw = read(table, entry_size * count)
        # name, type, flags, address, offset, size, link, info, alignment, entry size
        sections = [struct.unpack_from("<IIQQQQIIQQ", raw, i * entry_size) for i in range(count)]

        def content(kind: int) -> tuple[bytes, bytes]:
            section = next(s for s in sections if s[1] == kind)
            strings = sections[section[6]]
            return read(section[4], section[5]), read(strings[4], strings[5])

        def name(strings: bytes, offset: int) -> str:
            return strings[offset : strings.index(b"\0", offset)].decode()

        entries, strings = content(SHT_DYNAMIC)
        needed = {name(strings, value) for tag, value in struct.iter_unpack("<QQ", entries) if tag == DT_NEEDED}
        symbols, strings = content(SHT_DYNSYM)
        undefined, defined = set(), set()
        for offset, _info, _other, section, _value, _size in struct.iter_unpack("<IBBHQQ", symbols):
            (defined if section else undefined).add(name(strings, offset))
    return Library(frozenset(needed), frozenset(undefined), frozenset(defined))


def stand_in_source(symbols: set[str]) -> str:
    """C source that defines every symbol, as a function without parameters: arguments of a caller are ignored."""
    lines = [
        "#include <stdio.h>",
        "#include <stdlib.h>",
        "static void refuse(const char *name) {",
        '  fprintf(stderr, "%s was called, but this PyTorch was installed for the CPU only\\n", name);',
        "  abort();",
        "}",
        "static void *handle[1];",
    ]
    for symbol in sorted(symbols):
        if symbol.startswith("__cuda"):
            # Kernel registration, when a library is loaded.
            lines.append(f"void *{symbol}(void) {{ return handle; }}")
        elif symbol in ("cudaGetErrorString", "cudaGetErrorName"):
            lines.append(f'const char *{symbol}(void) {{ return "no CUDA-capable device is detected"; }}')
        elif re.match(r"cuda[A-Z]", symbol):
            lines.append(f"int {symbol}(void) {{ return 100; }}")  # cudaErrorNoDevice
        else:
            lines.append(f'void {symbol}(void) {{ refuse("{symbol}"); }}')
    return "\n".join(lines) + "\n"


def compile_library(source: str, target: Path) -> None:
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        sys.exit("no C compiler was found (cc); install one: hone's engine is built with it too")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "stand_in.c")
        file.write_text(source)
        command = [
            compiler,
            "-w",
            "-O1",
            "-shared",
            "-fPIC",
            f"-Wl,-soname,{target.name}",
            "-o",
            str(target),
            str(file),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{compiler} could not compile the stand-in for CUDA: {done.stderr.strip().splitlines()[0]}")


def without_gpu_packages(metadata: str) -> str:
    """PyTorch's metadata without the requirements that only a GPU needs; the same text for a CPU build."""
    return "".join(line for line in metadata.splitlines(keepends=True) if not GPU_PACKAGES.match(line))


def make_stand_in(folder: Path) -> list[str]:
    """Puts the stub into PyTorch's folder of libraries; returns the names under which they ask for it."""
    libraries = [read_library(path) for path in sorted(folder.glob("*.so*")) if not path.is_symlink()]
    libraries = [library for library in libraries if DRIVER not in library.needed]
    wanted = {name for library in libraries for name in library.needed if GPU_LIBRARIES.match(name)}
    undefined = {name for library in libraries for name in library.undefined if GPU_SYMBOLS.match(name)}
    defined = {name for library in libraries for name in library.defined}
    compile_library(stand_in_source(undefined - defined), folder / STAND_IN)
    return sorted(wanted)


def main() -> None:
    torch = distribution("torch")
    metadata = Path(str(torch.locate_file(f"torch-{torch.version}.dist-info/METADATA")))
    text = metadata.read_text(encoding="utf-8")
    kept = without_gpu_packages(text)
    if kept == text:
        return

    folder = Path(str(torch.locate_file("torch/lib")))
    for name in make_stand_in(folder):
        link = folder / name
        if not link.exists():
            link.symlink_to(STAND_IN)
    # Last: if interrupted before, another run starts from the beginning.
    metadata.write_text(kept, encoding="utf-8")


if __name__ == "__main__":
    main()
