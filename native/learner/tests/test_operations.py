"""hone's operations of PyTorch: checked by PyTorch itself, and their gradients by plain products."""

import gguf
import numpy
import pytest
import torch
from learner import fused, quantised

RANKS, WIDTH, OUT, ROWS = 8, 64, 48, 5
KIND = gguf.GGMLQuantizationType.Q8_0


def numbers(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def inputs(blocks):
    joint = numbers(OUT, WIDTH + RANKS)
    x, a, b = numbers(ROWS, WIDTH).requires_grad_(), numbers(RANKS, WIDTH).requires_grad_(), joint[:, WIDTH:].clone()
    b.requires_grad_()
    u = (x @ a.T).detach()
    if not blocks:
        return x, u, joint, numbers(OUT), a, b, 0.5
    bytes_ = torch.from_numpy(gguf.quants.quantize(joint[:, :WIDTH].numpy().astype(numpy.float32), KIND))
    return x, u, [bytes_], torch.tensor([KIND.value]), numbers(OUT), a, b, 0.5


def weight(given):
    if isinstance(given[2], list):
        return quantised.values(given[2][0], KIND, torch.float32)
    return given[2][:, :WIDTH]


@pytest.mark.parametrize("blocks", [False, True])
def test_a_product_with_an_adapter_has_the_gradients_of_plain_products(blocks):
    given = inputs(blocks)
    x, a, b, bias = given[0], given[-3], given[-2], given[-4]
    y = (fused.ADAPTED_BLOCKS if blocks else fused.ADAPTED)(*given)
    # b has the factor; its gradient is that of the adapter's own matrix.
    own = b / 0.5
    wanted = x @ weight(given).T + bias + 0.5 * (x @ a.T) @ own.T
    assert torch.allclose(y, wanted, rtol=1e-4, atol=1e-4)
    direction = numbers(ROWS, OUT)
    ours = torch.autograd.grad((y * direction).sum(), (x, a, b))
    theirs = torch.autograd.grad((wanted * direction).sum(), (x, a, own))
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-3)


def test_a_product_with_blocks_has_the_gradient_of_a_plain_product():
    x, _, blocks, kinds, bias, *_ = inputs(True)
    y = quantised.BLOCK_PRODUCT(x, blocks, kinds, bias, OUT)
    wanted = x @ weight((x, None, blocks)).T + bias
    direction = numbers(ROWS, OUT)
    ours, theirs = (torch.autograd.grad((one * direction).sum(), x)[0] for one in (y, wanted))
    assert torch.allclose(y, wanted, rtol=1e-4, atol=1e-4) and torch.allclose(ours, theirs, rtol=1e-4, atol=1e-3)


CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor")


@pytest.mark.parametrize("blocks", [False, True])
def test_pytorch_finds_schema_types_and_registration_right(blocks):
    given = inputs(blocks)
    dy, (x, u, a, b) = numbers(ROWS, OUT), (one.detach() for one in (*given[:2], *given[-3:-1]))
    if blocks:
        torch.library.opcheck(fused.ADAPTED_BLOCKS, given, test_utils=CHECKS)
        torch.library.opcheck(quantised.BLOCK_PRODUCT, (given[0], *given[2:5], OUT), test_utils=CHECKS)
    else:
        torch.library.opcheck(fused.ADAPTED, given, test_utils=CHECKS)
    for input_too in (True, False):
        if blocks:
            backward = (dy, x, u, *given[2:4], a, b, 0.5, input_too)
            torch.library.opcheck(fused.ADAPTED_BLOCKS_BACKWARD, backward, test_utils=CHECKS)
        else:
            backward = (dy, x, u, given[2], a, b, 0.5, input_too)
            torch.library.opcheck(fused.ADAPTED_BACKWARD, backward, test_utils=CHECKS)
