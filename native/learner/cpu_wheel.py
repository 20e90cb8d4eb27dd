"""Changes the wheel of a CUDA build of PyTorch to load without CUDA, as cpu_torch.py does with an installed one.

For machines that get their packages as files: they then need none of NVIDIA's packages. The wheel gets a build number,
so that pip prefers it to the one on an index. Does nothing to a CPU build.

    python -m learner.cpu_wheel FOLDER
"""

from __future__ import annotations

import re
import sys
import tempfile
import zipfile
from pathlib import Path

from .cpu_torch import STAND_IN, make_stand_in, without_gpu_packages

LIBRARIES = "torch/lib/"


def drop(archive: zipfile.ZipFile, name: str) -> None:
    """Removes a file from the list that is written at the end; its bytes stay."""
    archive.filelist.remove(archive.NameToInfo.pop(name))


def adapt(wheel: Path) -> Path:
    with zipfile.ZipFile(wheel, "a", zipfile.ZIP_DEFLATED) as archive:
        names = archive.namelist()
        metadata = next(name for name in names if re.fullmatch(r"torch-[^/]+\.dist-info/METADATA", name))
        record = metadata.replace("METADATA", "RECORD")
        text = archive.read(metadata).decode()
        kept = without_gpu_packages(text)
        if kept == text:
            return wheel
        with tempfile.TemporaryDirectory(dir=wheel.parent) as folder:
            archive.extractall(folder, [name for name in names if re.fullmatch(rf"{LIBRARIES}[^/]+\.so[^/]*", name)])
            libraries = Path(folder, LIBRARIES)
            wanted = make_stand_in(libraries)
            stub = (libraries / STAND_IN).read_bytes()
        # A wheel cannot contain links: each name is a file of its own.
        added = [f"{LIBRARIES}{name}" for name in [STAND_IN, *wanted] if f"{LIBRARIES}{name}" not in names]
        for name in added:
            # Readable for all, like the other libraries.
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.external_attr = 0o100755 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, stub)
        rows = [row for row in archive.read(record).decode().splitlines() if not row.startswith(f"{metadata},")]
        rows += [f"{name},," for name in [metadata, *added]]
        for name, content in [(metadata, kept), (record, "\n".join(rows) + "\n")]:
            drop(archive, name)
            archive.writestr(name, content)
    parts = wheel.name.split("-")
    return wheel.rename(wheel.with_name("-".join([*parts[:2], "1", *parts[2:]])))


def main(folder: str) -> None:
    for wheel in Path(folder).glob("torch-*.whl"):
        adapt(wheel)


if __name__ == "__main__":
    main(*sys.argv[1:])
