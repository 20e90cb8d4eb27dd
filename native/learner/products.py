"""Matrix products of f32 on a CPU, by oneDNN where MKL leaves half of the vector unit unused.

PyTorch takes MKL for them. MKL chooses its code by the processor's maker: on one that is not Intel's it keeps to AVX2,
also where AVX-512 exists. oneDNN, which PyTorch contains as well, asks for instructions alone. Its products are sums of
f32 too, in another order. `yarn bench --only learner/products` measures the gain.
"""

import warnings
from pathlib import Path

import torch

_library: torch.library.Library | None = None


def choose_products() -> None:
    """For the whole process, once. Other types keep PyTorch's own products, and so do CPUs on which MKL is fast."""
    global _library
    if _library is not None or not mkl_is_slow():
        return
    _library = torch.library.Library("aten", "IMPL", "CPU")
    with warnings.catch_warnings():
        # That a kernel of PyTorch is replaced, which is the aim.
        warnings.simplefilter("ignore", UserWarning)
        _library.impl("mm", mm)
        _library.impl("addmm", addmm)


def mkl_is_slow() -> bool:
    wide = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    return wide and torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available() and not _is_intel()


def mm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a [M, K] @ b [K, N]"""
    if _fits(a, b):
        return torch.ops.mkldnn._linear_pointwise(a, b.t(), None, "none", [], "")
    # Its form with an output is not replaced.
    return torch.ops.aten.mm.out(a, b, out=a.new_empty((a.shape[0], b.shape[1])))


def addmm(bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: float = 1, alpha: float = 1) -> torch.Tensor:
    """beta * bias [N] or [M, N] + alpha * a [M, K] @ b [K, N]"""
    if bias.dim() == 1 and beta == 1 and alpha == 1 and _fits(a, b, bias):
        return torch.ops.mkldnn._linear_pointwise(a, b.t(), bias, "none", [], "")
    out = a.new_empty((a.shape[0], b.shape[1]))
    return torch.ops.aten.addmm.out(bias, a, b, beta=beta, alpha=alpha, out=out)


def mm_into(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a [M, K] @ b [K, N] in `out` [M, N], which is returned."""
    return torch.mm(a, b, out=out) if _library is None else out.copy_(mm(a, b))


def _fits(*operands: torch.Tensor) -> bool:
    return all(one.dtype == torch.float32 and one.numel() > 0 for one in operands)


def _is_intel() -> bool:
    """As Linux tells it; elsewhere MKL is left as it is."""
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return True
