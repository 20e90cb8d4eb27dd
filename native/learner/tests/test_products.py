"""Products of f32 on a CPU: the same numbers as PyTorch's own, and its own for all other types."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from learner import products

EPSILON = torch.finfo(torch.float32).eps

needs_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="PyTorch without oneDNN")


@needs_onednn
@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 576, 8), (130, 8, 576), (1001, 64, 33)])
@pytest.mark.parametrize("turned", [False, True], ids=["rows", "columns"])
def test_a_product_is_rounded_as_a_sum_of_f32_may_be(shape, turned):
    m, k, n = shape
    generator = torch.Generator().manual_seed(1)
    a = torch.randn(m, k, generator=generator)
    b = torch.randn(n, k, generator=generator).t() if turned else torch.randn(k, n, generator=generator)
    bias = torch.randn(n, generator=generator)
    exact = a.double() @ b.double()
    # Higham, Accuracy and Stability of Numerical Algorithms, 3.5: |error| <= K eps |a| |b| for any order of the sum.
    bound = (k + 2) * EPSILON * (a.double().abs() @ b.double().abs() + bias.double().abs())
    assert ((products.mm(a, b).double() - exact).abs() <= bound).all()
    assert ((products.addmm(bias, a, b).double() - (exact + bias.double())).abs() <= bound).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64])
def test_other_types_and_forms_are_pytorchs_own(dtype):
    a, b, bias = (torch.randint(-3, 4, shape).to(dtype) for shape in ((5, 7), (7, 3), (3,)))
    assert torch.equal(products.mm(a, b), a @ b)
    assert torch.equal(products.addmm(bias, a, b), torch.addmm(bias, a, b))
    scaled = products.addmm(bias, a, b, beta=2, alpha=3)
    assert torch.equal(scaled, torch.addmm(bias, a, b, beta=2, alpha=3))


def test_empty_matrices_have_a_product():
    assert products.mm(torch.ones(0, 4), torch.ones(4, 3)).shape == (0, 3)
    assert torch.equal(products.mm(torch.ones(2, 0), torch.ones(0, 3)), torch.zeros(2, 3))


@needs_onednn
def test_a_process_that_takes_them_has_the_gradients_of_one_that_does_not():
    taken, own = (gradients_with(choice) for choice in ("True", "False"))
    assert taken != []
    assert taken == pytest.approx(own, rel=1e-4, abs=1e-5)


def gradients_with(slow: str) -> list[float]:
    """Gradients of a linear layer with a bias and one without, in a process of their own."""
    code = f"""
import torch
from learner import products
products.mkl_is_slow = lambda: {slow}
products.choose_products()
products.choose_products()
assert (products._library is not None) == {slow}
torch.manual_seed(3)
first, second = torch.nn.Linear(20, 30), torch.nn.Linear(30, 4, bias=False)
x = torch.randn(2, 9, 20, requires_grad=True)
second(first(x).relu()).square().sum().backward()
for one in (x, first.weight, first.bias, second.weight):
    print(*one.grad.flatten().tolist())
"""
    native = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=native, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return [float(number) for number in done.stdout.split()]


@pytest.mark.parametrize(
    ("capability", "maker", "slow"),
    [
        ("AVX512", "AuthenticAMD", True),
        ("AVX512", "GenuineIntel", False),
        ("AVX2", "AuthenticAMD", False),
    ],
)
@needs_onednn
def test_mkl_is_left_where_it_is_fast(monkeypatch, capability, maker, slow):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(Path, "read_text", lambda self: f"vendor_id\t: {maker}\n")
    assert products.mkl_is_slow() is slow
