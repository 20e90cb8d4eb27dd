"""A package index of empty packages.

    python stand_in_wheels.py FOLDER TORCH_CUDA NAME==VERSION...

Writes FOLDER/<name>/<wheel>, as an index of PEP 503 lists them. PyTorch says that it was built for TORCH_CUDA ("cpu":
for none), and nothing else of it works.
"""

import sys
import zipfile
from pathlib import Path


def wheel(name: str, version: str, files: dict[str, str], folder: Path) -> None:
    # An index lists a name with hyphens (PEP 503), where a wheel has underscores.
    target = folder / name.replace("_", "-")
    target.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(target / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


def main(target: str, cuda: str, *pins: str) -> None:
    for name, version in (pin.split("==") for pin in pins):
        files = {f"{name}/__init__.py": ""}
        if name == "torch":
            built = None if cuda == "cpu" else cuda
            files = {
                "torch/__init__.py": "class ones:\n    def __init__(self, n): pass\n    def sum(self): pass\n",
                "torch/version.py": f"__version__ = {version!r}\ncuda: str | None = {built!r}\n",
                "torch/lib/README": "",
            }
        wheel(name, version, files, Path(target))


if __name__ == "__main__":
    main(*sys.argv[1:])
