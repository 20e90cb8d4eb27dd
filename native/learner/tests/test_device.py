"""The learner computes where it was told, or says why it cannot."""

import ctypes
import re

import pytest
import torch
from learner import device
from learner.device import choose_device, why_no_cuda
from learner.errors import Refused


@pytest.fixture
def machine(monkeypatch):
    """Sets what PyTorch and the driver say; by default a CUDA 13.0 build that sees nothing."""

    def pretend(built="13.0", available=False, driver=(13000, ""), capability=(8, 9), codes=("sm_80",), visible=None):
        monkeypatch.setattr(torch.version, "cuda", built)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
        monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: list(codes))
        monkeypatch.setattr(device, "_ask_driver", lambda: driver)

        def fail():
            raise RuntimeError("CUDA says no\nsecond line")

        monkeypatch.setattr(torch.cuda, "init", fail)
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    return pretend


def test_the_cpu_is_taken_whatever_there_is(machine):
    machine(available=True)
    assert choose_device("cpu").type == "cpu"


def test_cuda_is_taken_where_it_works(machine):
    machine(available=True)
    assert choose_device("cuda").type == "cuda"


def test_cuda_is_never_replaced(machine):
    machine(built=None)
    with pytest.raises(Refused, match=r"^the learner is to compute on CUDA, and cannot: PyTorch .* without CUDA; "):
        choose_device("cuda")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"built": None}, r"^PyTorch \S+ was built without CUDA$"),
        (
            {"driver": (None, "libcuda.so.1: no such file")},
            r"^NVIDIA's driver cannot be loaded: libcuda\.so\.1: no such",
        ),
        ({"driver": (12040, "")}, r"was built for CUDA 13\.0, the driver knows CUDA up to 12\.4$"),
        ({"visible": ""}, r"^CUDA_VISIBLE_DEVICES='' hides all GPUs$"),
        ({"visible": "-1"}, r"^CUDA_VISIBLE_DEVICES='-1' hides all GPUs$"),
        ({"visible": "GPU-9"}, r"^PyTorch sees no NVIDIA GPU \(CUDA_VISIBLE_DEVICES is GPU-9\): CUDA says no$"),
        ({}, r"^PyTorch sees no NVIDIA GPU: CUDA says no$"),
        (
            {"available": True, "capability": (6, 1), "codes": ("sm_75", "sm_90")},
            r"no code for this GPU \(compute capability 6\.1; .* sm_90\)$",
        ),
    ],
)
def test_the_reason_is_named(machine, said, why):
    machine(**said)
    assert re.search(why, why_no_cuda())


@pytest.mark.parametrize(
    ("capability", "codes"),
    [((8, 9), ("sm_80", "sm_86")), ((12, 1), ("sm_75", "compute_120")), ((9, 0), ("sm_90a",)), ((8, 0), ())],
)
def test_code_of_the_same_generation_or_ptx_will_do(machine, capability, codes):
    machine(available=True, capability=capability, codes=codes)
    assert why_no_cuda() is None


def test_a_driver_of_the_same_major_version_will_do(machine):
    """CUDA 12.6 on a driver for 12.2: NVIDIA promises that minor versions work."""
    machine(built="12.6", driver=(12020, ""))
    assert "was built for" not in why_no_cuda()


def test_the_driver_is_asked_for_its_version(monkeypatch):
    class Driver:
        @staticmethod
        def cuDriverGetVersion(into):
            into._obj.value = 12080
            return 0

    monkeypatch.setattr(ctypes, "CDLL", lambda _: Driver)
    assert device._ask_driver() == (12080, "")

    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert device._ask_driver() == (None, "libcuda.so.1: cannot open shared object file")
