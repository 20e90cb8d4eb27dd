"""The library that stands in for CUDA's: loaded and called as PyTorch does; the instructions for aarch64."""

import ctypes
import importlib.util
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from learner.cpu_torch import STAND_IN
from learner.stand_in import NO_DEVICE_TEXT, REFUSAL, Arm64, functions_at, stand_in

MACHINE = {"x86_64": 62, "aarch64": 183}.get(platform.machine(), 0)
here = pytest.mark.skipif(sys.platform != "linux" or not MACHINE, reason="libraries of Linux on x86-64 or aarch64")


def library(folder: Path, *names: str) -> Path:
    path = folder / "libstand.so.1"
    path.write_bytes(stand_in(names, ["libcudart.so.13"], path.name, MACHINE))
    return path


@here
def test_the_runtime_answers_that_there_is_no_device(tmp_path):
    cuda = ctypes.CDLL(str(library(tmp_path, "cudaGetDeviceCount", "cudaGetErrorString", "cudaGetErrorName")))
    count = ctypes.c_int(7)
    assert cuda.cudaGetDeviceCount(ctypes.byref(count)) == 100
    assert count.value == 7
    cuda.cudaGetErrorString.restype = ctypes.c_char_p
    assert cuda.cudaGetErrorString(100) == b"no CUDA-capable device is detected"


@here
def test_kernels_are_registered_at_a_place_that_can_be_written(tmp_path):
    register = getattr(ctypes.CDLL(str(library(tmp_path, "__cudaRegisterFatBinary"))), "__cudaRegisterFatBinary")
    register.restype = ctypes.c_void_p
    place = ctypes.cast(register(None), ctypes.POINTER(ctypes.c_void_p))
    place[0] = 5
    assert place[0] == 5


@here
@pytest.mark.parametrize("name", ["cublasCreate_v2", "ncclGetUniqueId"])
def test_any_other_call_ends_the_process_and_says_which_it_was(tmp_path, name):
    path = library(tmp_path, "cublasCreate_v2", "ncclGetUniqueId", "cudaFree")
    script = f"import ctypes; ctypes.CDLL({str(path)!r}).{name}(1, 2)"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.returncode == -signal.SIGABRT
    assert ended.stderr == f"{name} was called, but this PyTorch was installed for the CPU only\n"


@here
def test_every_one_of_thousands_of_symbols_is_found_and_no_other(tmp_path):
    names = [f"cudaCall{number}" for number in range(5000)]
    cuda = ctypes.CDLL(str(library(tmp_path, *names)))
    assert {getattr(cuda, name)() for name in names} == {100}
    with pytest.raises(AttributeError):
        cuda.cudaCall5000  # noqa: B018


def test_a_machine_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="machine 8 of ELF"):
        stand_in(["cudaFree"], [], "lib.so", 8)


def test_instructions_of_aarch64():
    """The words are those that LLVM's assembler gives."""
    start, handle, name = 0x1000, 0x20000, 0x130
    names = {"__cudaX": 0x120, "cudaFree": 0x110, "cudaGetErrorName": 0x140, "cublasC": name}
    code, at = functions_at(start, Arm64.machine, names, handle)
    places = range(start, at["cublasC"] + 12, 4)
    words = {place: int.from_bytes(code[place - start :][:4], "little") for place in places}
    assert start + code.index(NO_DEVICE_TEXT) == 0x1000
    assert start + code.index(REFUSAL) == 0x1023
    # adr x0, #126880; ret
    assert [words[at["__cudaX"] + step] for step in (0, 4)] == [0x100F7D00, 0xD65F03C0]
    # mov x0, #100
    assert words[at["cudaFree"]] == 0xD2800C80
    # adr x0, #-112
    assert words[at["cudaGetErrorName"]] == 0x10FFFC80
    # mov x0, #2; mov x8, #64; svc #0; adr x1, #-97
    assert [words[0x1078 + step] for step in (0, 4, 8, 12)] == [0xD2800040, 0xD2800808, 0xD4000001, 0x70FFFCE1]
    # adr x1, #-3988; mov x2, #7; b #-84
    assert [words[at["cublasC"] + step] for step in (0, 4, 8)] == [0x10FF8361, 0xD28000E2, 0x17FFFFEB]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_pytorch_with_a_stand_in_computes_and_sees_no_gpu():
    import torch

    if not Path(torch.__file__, "../lib", STAND_IN).resolve().exists():
        pytest.skip("this PyTorch has no stand-in for CUDA")
    assert not torch.cuda.is_available()
    assert torch.ones(2, 2).mm(torch.ones(2, 2)).sum().item() == 8
