"""What is said of errors of PyTorch's compiler: the cause, in one line, and what to install."""

import os
import subprocess
import sys

import learner.__main__ as program
import pytest
import torch
from conftest import ROOT
from learner.compiler import missing_toolchain, reason
from torch._dynamo.exc import BackendCompilerFailed
from torch._inductor.exc import InductorError, TritonMissing

pytestmark = pytest.mark.full

INSTALL = "apt install gcc python3-dev"
GCC = [
    "/usr/bin/gcc",
    "/tmp/tmpab12cd34/cuda_utils.c",
    "-O3",
    "-shared",
    "-fPIC",
    "-lcuda",
    "-I/usr/include/python3.11",
]


def compile_backend():
    """A function that PyTorch's compiler names in an error."""


def raised_from(error, cause):
    try:
        raise error from cause
    except type(error) as caught:
        return caught


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("no such kernel\nand more"), "RuntimeError: no such kernel"),
        (BackendCompilerFailed(compile_backend, ValueError("the true reason"), None), "ValueError: the true reason"),
        (InductorError(AssertionError(), None), "InductorError: AssertionError:"),
        (raised_from(RuntimeError("outer"), KeyError("inner")), "KeyError: 'inner'"),
        (
            RuntimeError(
                "Observed exception\n  Explanation: none\n\n  Developer debug context: raised ValueError(3)\n"
            ),
            "RuntimeError: Observed exception (raised ValueError(3))",
        ),
        (
            RuntimeError("failed\n  Explanation: sizes differ\n\n  Developer debug context: \n"),
            "RuntimeError: failed (sizes differ)",
        ),
        (RuntimeError("at 12:4:\n    x = tl.dot(a, b)\n"), "RuntimeError: at 12:4: x = tl.dot(a, b)"),
        (
            RuntimeError("Failed:\nTraceback (most recent call last):\n  File ...\nValueError: out of registers"),
            "RuntimeError: ValueError: out of registers",
        ),
        (ValueError(), "ValueError"),
    ],
)
def test_the_innermost_cause_is_said_in_one_line(error, said):
    assert reason(error) == said
    assert missing_toolchain(error) is None


def test_the_compilers_own_errors_say_what_it_could_not_trace():
    def raises(x):
        raise ValueError("five is wrong")

    def multiplies(x):
        return x @ x

    for function, cause in ((raises, "five is wrong"), (multiplies, "must have same reduction dim")):
        with pytest.raises(Exception) as error:
            torch.compile(function, backend="eager", fullgraph=True)(torch.ones(4, 5))
        assert cause in reason(error.value) and "\n" not in reason(error.value)
    torch.compiler.reset()


def test_a_line_is_not_endless():
    assert len(reason(RuntimeError("x" * 1000))) == 300


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            InductorError(RuntimeError("Failed to find C compiler. Please specify via CC environment variable."), None),
            "there is no C compiler; ",
        ),
        (InductorError(subprocess.CalledProcessError(1, GCC), None), "gcc fails (exit status 1); "),
        (
            RuntimeError(
                f"An exception occurred in a subprocess:\n\nsubprocess.{subprocess.CalledProcessError(1, GCC)!r}"
            ),
            "the C compiler fails; ",
        ),
        (TritonMissing(None), "Triton is not installed, or cannot be loaded; "),
    ],
)
def test_a_lack_of_tools_is_told_with_its_remedy(error, said):
    line = missing_toolchain(error)
    assert line.startswith(said) and INSTALL in line and "\n" not in line and len(line) < 200


def test_a_program_that_compiles_no_c_is_another_failure():
    error = InductorError(subprocess.CalledProcessError(255, ["ptxas", "-o", "kernel.cubin", "kernel.ptx"]), None)
    assert missing_toolchain(error) is None and "ptxas" in reason(error)


def test_an_update_that_cannot_do_without_is_refused_with_the_remedy():
    code, message = program.explained(subprocess.CalledProcessError(1, GCC), "step")
    assert code == "refused" and message.startswith("the learner cannot compute on this machine: gcc fails")
    assert INSTALL in message and "\n" not in message
    assert program.explained(subprocess.CalledProcessError(1, ["nvidia-smi"]), "step")[0] == "failed"


@pytest.mark.parametrize("module", ["learner.session", "learner.export"])
def test_pytorch_is_told_to_compile_none_of_its_own_operations(module):
    """It would compile RoPE's product for a card, in every way of computing rows."""
    asked = "from torch._native.common_utils import check_native_jit_disabled as off; print(off())"
    env = {name: value for name, value in os.environ.items() if name != "TORCH_DISABLE_NATIVE_JIT"}
    run = subprocess.run(
        [sys.executable, "-c", f"import {module}; {asked}"],
        env=env | {"PYTHONPATH": str(ROOT / "native")},
        capture_output=True,
        text=True,
    )
    assert run.stdout.strip() == "True", run.stderr
