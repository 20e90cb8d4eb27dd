"""What is said of errors of PyTorch's compiler: the cause, in one line, and what to install."""

import os
import subprocess
import sys

import learner.__main__ as program
import pytest
import torch
from conftest import ROOT
from learner.compiler import COMPILED, KEPT, missing_toolchain, prepare, reason, without_damaged
from learner.fused import ADAPTED
from torch._dynamo.exc import BackendCompilerFailed
from torch._dynamo.utils import counters
from torch._inductor.exc import InductorError, TritonMissing
from torch._inductor.utils import clear_caches
from torch.compiler import config

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


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """The folder of what is compiled."""
    monkeypatch.setenv(KEPT, str(tmp_path / "kernels"))
    with config.patch(cache_key_tag=""):
        yield tmp_path / "kernels"
    torch.compiler.reset()
    clear_caches()


def adapted_gradients(compiled):
    """Of a layer of hone's operations; compiled as in a process that begins."""
    torch.compiler.reset()
    clear_caches()
    counters.clear()
    torch.manual_seed(0)
    x, a, b = (torch.randn(shape, requires_grad=True) for shape in ((6, 4), (3, 4), (5, 3)))
    joint = torch.cat((torch.randn(5, 4), b.detach()), 1)

    def layer(x, a, b, joint):
        return ADAPTED(x, torch.mm(x.detach(), a.detach().T), joint, None, a, b, 2.0)

    y = (torch.compile(layer, **COMPILED) if compiled else layer)(x, a, b, joint)
    y.square().sum().backward()
    return [y.detach(), x.grad, a.grad, b.grad]


def made():
    """How much was compiled, forward and backward."""
    return counters["inductor"]["fxgraph_cache_miss"]


def close(ours, theirs):
    return all(torch.allclose(one, other, atol=1e-5) for one, other in zip(ours, theirs, strict=True))


def test_what_was_compiled_is_loaded_by_a_later_process_of_the_same_hone(kernels):
    wanted = adapted_gradients(compiled=False)
    assert prepare() is None
    assert close(adapted_gradients(compiled=True), wanted) and made() == 2
    assert close(adapted_gradients(compiled=True), wanted) and made() == 0
    # In another one the operations' gradients may be others.
    config.cache_key_tag = "another"
    assert close(adapted_gradients(compiled=True), wanted) and made() == 2


def test_files_that_are_cut_short_are_removed_and_what_was_in_them_is_compiled_again(kernels):
    prepare()
    wanted = adapted_gradients(compiled=True)
    assert without_damaged() == 0
    files = [file for file in kernels.rglob("*") if file.is_file()]
    for file in files:
        file.write_bytes(b"")
    assert without_damaged() == len(files) > 2
    assert close(adapted_gradients(compiled=True), wanted) and made() == 2


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
