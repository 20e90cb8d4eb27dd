"""Operations of PyTorch that are hone's own: compiled code calls each as a whole.

As by torch.library.custom_op, without what that does in each call: it checks that no output is an input, and passes
several functions of Python. An update calls a thousand of them, while the card waits.
"""

from collections.abc import Callable
from typing import Any

import torch

_library = torch.library.Library("hone", "FRAGMENT")


def operation(compute: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    """hone::NAME, NAME and types as those of the function, which changes no input and returns none. `fake` gives
    outputs of the same shapes and strides, without values."""
    name = compute.__name__
    schema = torch.library.infer_schema(compute, mutates_args=())
    _library.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
    _library.impl(name, compute, "CompositeExplicitAutograd")
    torch.library.register_fake(f"hone::{name}", fake, lib=_library)
    return getattr(torch.ops.hone, name).default


def differentiate(of: Any, keep: Callable[..., None], backward: Callable[..., tuple[Any, ...]]) -> None:
    """Gives an operation with one output its gradients.

    `keep(context, *inputs)` saves what the backward pass needs; `backward(context, gradient)` returns a gradient or
    None for each input. context.needs_input_grad has one more entry, the first. Tensors in lists have no gradient.
    """

    def below(keys: Any, *inputs: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return of.redispatch(keys & torch._C._after_autograd_keyset, *inputs)

    class Differentiated(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, keys: Any, *inputs: Any) -> Any:
            keep(context, *inputs)
            return below(keys, *inputs)

        @staticmethod
        def backward(context: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
            return None, *backward(context, gradient)

    def kernel(keys: Any, *inputs: Any) -> Any:
        if torch.is_grad_enabled() and torch._C._any_requires_grad(*inputs):
            return Differentiated.apply(keys, *inputs)
        return below(keys, *inputs)

    _library.impl(of._schema.name.removeprefix("hone::"), kernel, "Autograd", with_keyset=True)
