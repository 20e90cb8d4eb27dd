"""The wheel of a CUDA build of PyTorch, made one that loads without CUDA: with a small library in its place."""

import ctypes
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from learner.cpu_wheel import main

METADATA = """Metadata-Version: 2.1
Name: torch
Version: 2.0
Requires-Dist: sympy
Requires-Dist: nvidia-cudnn==9 ; platform_system == "Linux"
Requires-Dist: triton==3
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="PyTorch's wheels have CUDA on Linux alone")


def compiled(folder: Path, name: str, source: str, *flags: str) -> Path:
    file = folder / f"{name}.c"
    file.write_text(source)
    library = folder / name
    compiler = shutil.which("cc") or "gcc"
    command = [compiler, "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", str(library), str(file), *flags]
    subprocess.run(command, check=True)
    return library


def wheel(folder: Path, metadata: str) -> Path:
    build = folder / "build"
    build.mkdir()
    # As NVIDIA's: symbols have versions, which the stand-in has not.
    versions = folder / "versions.map"
    versions.write_text("libcudart.so.13 { global: *; };\n")
    real = "int cudaGetDevice(int *d) { *d = 0; return 0; }"
    runtime = compiled(build, "libcudart.so.13", real, f"-Wl,--version-script={versions}")
    source = "int cudaGetDevice(int *); int device_error(void) { int d; return cudaGetDevice(&d); }"
    library = compiled(build, "libtorch_cuda.so", source, str(runtime), "-Wl,-rpath,$ORIGIN")
    path = folder / "torch-2.0-cp311-cp311-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(library, "torch/lib/libtorch_cuda.so")
        archive.writestr("torch/version.py", "cuda = '13.0'\n")
        archive.writestr("torch-2.0.dist-info/METADATA", metadata)
        archive.writestr("torch-2.0.dist-info/RECORD", "torch/version.py,,\ntorch-2.0.dist-info/METADATA,sha256=x,1\n")
    return path


def adapt(folder: Path) -> list[str]:
    main(str(folder))
    return sorted(path.name for path in folder.glob("*.whl"))


def test_loads_without_cuda_and_asks_for_no_package_of_nvidia(tmp_path):
    wheel(tmp_path, METADATA)
    assert adapt(tmp_path) == ["torch-2.0-1-cp311-cp311-manylinux_2_28_x86_64.whl"]
    path = next(tmp_path.glob("*.whl"))
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert len(archive.namelist()) == len(set(archive.namelist()))
        archive.extractall(unpacked)
    metadata = (unpacked / "torch-2.0.dist-info/METADATA").read_text()
    assert [line for line in metadata.splitlines() if line.startswith("Requires")] == ["Requires-Dist: sympy"]
    record = (unpacked / "torch-2.0.dist-info/RECORD").read_text().splitlines()
    # A sum that no longer holds is not listed.
    assert "torch-2.0.dist-info/METADATA,," in record
    assert "torch/lib/libcudart.so.13,," in record
    assert (unpacked / "torch/version.py").read_text() == "cuda = '13.0'\n"
    # As the runtime answers without a device: cudaErrorNoDevice.
    assert ctypes.CDLL(str(unpacked / "torch/lib/libtorch_cuda.so")).device_error() == 100
    # pip reads a name with a build number so; a second time there is nothing to do.
    before = path.read_bytes()
    assert adapt(tmp_path) == [path.name]
    assert path.read_bytes() == before


def test_a_cpu_build_stays_as_it_is(tmp_path):
    path = wheel(tmp_path, METADATA.split("Requires-Dist: nvidia")[0])
    before = path.read_bytes()
    assert adapt(tmp_path) == [path.name]
    assert path.read_bytes() == before
