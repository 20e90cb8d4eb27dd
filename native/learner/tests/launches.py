"""Counts the kernels that a row would launch on a card, without one.

Every operation that reaches a device is one launch there, views and allocations are none. Tensors are fake: they have
shapes and types, and nothing is computed. An attention call in one is one launch forward and two backward, as
FlexAttention's kernels are (the second is for the sums that the gradient begins with). *Not compared with CUDA*, where
some operations (of an index, say) are more than one kernel.
"""

from contextlib import contextmanager

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

FREE = ("empty", "detach", "alias", "view", "_unsafe_view", "_reshape_alias", "lift_fresh", "resize_", "set_")
ONE_CALL = (1, 2)


class Launches(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.count = 0
        self.by_name = {}

    def add(self, name, number=1):
        self.count += number
        self.by_name[name] = self.by_name.get(name, 0) + number

    def __torch_dispatch__(self, operation, types, arguments=(), named=None):
        name = operation._schema.name.partition("::")[2]
        free = operation.is_view or name.startswith(FREE) or not operation._schema.name.startswith("aten::")
        if not free:
            self.add(name)
        return operation(*arguments, **(named or {}))


class _OneCall(torch.autograd.Function):
    """Of the shape of attention."""

    @staticmethod
    def forward(context, query, key, value, counter):
        context.save_for_backward(query, key, value)
        context.counter = counter
        counter.add("attention", ONE_CALL[0])
        return torch.empty_like(query)

    @staticmethod
    def backward(context, gradient):
        context.counter.add("attention backward", ONE_CALL[1])
        return *(torch.empty_like(one) for one in context.saved_tensors), None


@contextmanager
def counted(backend):
    """Launches of what `backend` computes within it; fake tensors alone."""
    with FakeTensorMode(allow_non_fake_inputs=True), Launches() as counter:
        backend.rows._attend = lambda query, key, value, **_: _OneCall.apply(query, key, value, counter)
        yield counter
