"""Makes a CUDA build of PyTorch load on a machine without a GPU, without the CUDA libraries (2 GB download, 4 GB disk).

PyPI's Linux wheels of PyTorch are CUDA builds. On a machine without a GPU they never call CUDA, but the dynamic loader
requires every library they name, with every symbol they use. So this program, run by hone's installer when no CPU build
is available, puts one small library (stand_in.py) beside PyTorch's own, under all those names. PyTorch's metadata then
no longer requires the NVIDIA packages, so that pip does not fetch them later.

Does nothing to a CPU build. Run as `python -m learner.cpu_torch` by the interpreter that has PyTorch.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

from .stand_in import stand_in

GPU_PACKAGES = re.compile(r"Requires-Dist:\s*(nvidia-|cuda-|triton\b)", re.IGNORECASE)
GPU_LIBRARIES = re.compile(r"lib(cu|nv|nccl)")
GPU_SYMBOLS = re.compile(r"(__)?(cu[A-Z]|cuda|cublas|cudnn|cufft|cupti|curand|cusolver|cusparse|nccl|nv)")
# The driver's own library; PyTorch loads libraries linked to it only when there is a GPU.
DRIVER = "libcuda.so.1"
STAND_IN = "libhone_no_cuda.so"

SHT_DYNAMIC = 6
SHT_DYNSYM = 11
SHT_VERNEED = 0x6FFFFFFE
DT_NEEDED = 1


@dataclass(frozen=True)
class Library:
    """Symbols and libraries that a shared library (ELF, 64-bit, little-endian) needs, and those it provides."""

    machine: int
    needed: frozenset[str]
    undefined: frozenset[str]
    defined: frozenset[str]
    # Of symbols, by the library that has to offer them.
    versions: frozenset[tuple[str, str]]


def read_library(path: Path) -> Library:
    """Reads the dynamic section and the dynamic symbols; for the layout see elf(5)."""
    with path.open("rb") as file:
        header = file.read(64)
        if header[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path} is no 64-bit little-endian ELF library")
        (machine,) = struct.unpack_from("<H", header, 0x12)
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
        versions = set()
        if any(section[1] == SHT_VERNEED for section in sections):
            needs, strings = content(SHT_VERNEED)
            for file, version in version_needs(needs):
                versions.add((name(strings, file), name(strings, version)))
    return Library(machine, frozenset(needed), frozenset(undefined), frozenset(defined), frozenset(versions))


def version_needs(table: bytes) -> Iterator[tuple[int, int]]:
    """Places of the names of a library and of a version of its symbols, from a table of SHT_VERNEED."""
    at, step = 0, 1
    while step:
        _, count, file, first, step = struct.unpack_from("<HHIII", table, at)
        entry = at + first
        for _ in range(count):
            _, _, _, version, more = struct.unpack_from("<IHHII", table, entry)
            yield file, version
            entry += more
        at += step


def without_gpu_packages(metadata: str) -> str:
    """PyTorch's metadata without the requirements that only a GPU needs; the same text for a CPU build."""
    return "".join(line for line in metadata.splitlines(keepends=True) if not GPU_PACKAGES.match(line))


def make_stand_in(folder: Path) -> list[str]:
    """Puts the stand-in into PyTorch's folder of libraries; returns the names under which they ask for it."""
    paths = [path for path in sorted(folder.glob("*.so*")) if not path.is_symlink() and path.name != STAND_IN]
    libraries = [read_library(path) for path in paths]
    libraries = [library for library in libraries if DRIVER not in library.needed]
    wanted = {name for library in libraries for name in library.needed if GPU_LIBRARIES.match(name)}
    undefined = {name for library in libraries for name in library.undefined if GPU_SYMBOLS.match(name)}
    defined = {name for library in libraries for name in library.defined}
    versions = {version for library in libraries for file, version in library.versions if file in wanted}
    (folder / STAND_IN).write_bytes(stand_in(undefined - defined, versions, STAND_IN, libraries[0].machine))
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
