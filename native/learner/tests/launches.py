"""Counts the kernels that a row would launch on a card, without one.

Every operation that reaches a device is one launch there, views and allocations are none. Tensors are fake: they have
shapes and types, and nothing is computed. An attention call in one is one launch forward and two backward, as
FlexAttention's kernels are (the second is for the sums that the gradient begins with). *Not compared with CUDA*, where
some operations (of an index, say) are more than one kernel.

Of compiled code each kernel that PyTorch's compiler would generate is one launch, and so is each operation that it
calls. It makes this plan for a CPU here, not for a card. No code is generated: the operations are computed one by one.
"""

import warnings
from collections import Counter
from contextlib import contextmanager

import torch
from learner import card, fused
from torch._functorch import config as functorch
from torch._inductor import config as inductor
from torch._inductor import scheduler
from torch._inductor.graph import GraphLowering
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

FREE = (
    "empty",
    "new_empty",
    "detach",
    "alias",
    "view",
    "_unsafe_view",
    "_reshape_alias",
    "lift_fresh",
    "resize_",
    "set_",
)
ONE_CALL = (1, 2)


class Launches(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.count = 0
        self.by_name = Counter()
        self.paused = False

    @classmethod
    def ignore_compile_internals(cls):
        return True

    def add(self, name, number=1):
        self.count += number
        self.by_name[name] += number

    def __torch_dispatch__(self, operation, types, arguments=(), named=None):
        name = operation._schema.name.partition("::")[2]
        free = operation.is_view or name.startswith(FREE) or not operation._schema.name.startswith("aten::")
        if not (free or self.paused):
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


@torch.library.custom_op("count::attention", mutates_args=())
def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Of the shape and strides of FlexAttention."""
    return torch.zeros_like(query)


@torch.library.custom_op("count::attention_backward", mutates_args=())
def attention_backward(
    gradient: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return tuple(torch.zeros_like(one) for one in (query, key, value))


@attention.register_fake
def _(query, key, value):
    return torch.empty_like(query)


@attention_backward.register_fake
def _(gradient, query, key, value):
    return tuple(torch.empty_like(one) for one in (query, key, value))


attention.register_autograd(
    lambda ctx, gradient: attention_backward(gradient, *ctx.saved_tensors),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)
OURS = {
    fused.ADAPTED: fused.adapted,
    fused.ADAPTED_BACKWARD: fused.adapted_backward,
}
"""Their launches are those of the operations in them."""
ATTENTION = {
    torch.ops.count.attention.default: ("attention", ONE_CALL[0]),
    torch.ops.count.attention_backward.default: ("attention backward", ONE_CALL[1]),
}


class _Computed(torch.fx.Interpreter):
    """Computes a graph without code of its own, and counts what was planned for it."""

    def __init__(self, graph, planned, counter):
        super().__init__(graph)
        self.planned, self.counter = planned, counter

    def call(self, inputs):
        given = list(inputs)
        inputs.clear()
        for name, number in self.planned.items():
            self.counter.add(name, number)
        self.counter.paused = True
        try:
            return self.run(*given)
        finally:
            self.counter.paused = False

    def call_function(self, target, arguments, named):
        if target in ATTENTION:
            self.counter.add(*ATTENTION[target])
        if target not in OURS:
            return super().call_function(target, arguments, named)
        self.counter.paused = False
        try:
            return OURS[target](*arguments, **named)
        finally:
            self.counter.paused = True


def planned_launches(graph):
    """By name; without those of OURS and ATTENTION."""
    counted = Counter()
    for node in graph.scheduler.nodes:
        target = getattr(node.node, "op_overload", None)
        free = isinstance(node, scheduler.NopKernelSchedulerNode) or type(node.node).__name__ == "MultiOutput"
        if not (free or target in OURS or target in ATTENTION):
            counted["mm" if target is torch.ops.aten.mm.out else "compiled kernel"] += 1
    return counted


@contextmanager
def counted_compiled(backend, monkeypatch, attend=lambda query, key, value, **_: attention(query, key, value)):
    """Launches of a backend whose layers are compiled. `attend` stands in for FlexAttention."""
    with (
        # Others would find graphs without code in the caches.
        inductor.patch(fx_graph_cache=False),
        functorch.patch(enable_autograd_cache=False),
        Launches() as counter,
        monkeypatch.context() as patched,
        warnings.catch_warnings(),
    ):
        # PyTorch's compiler looks at gradients that autograd does not keep.
        warnings.simplefilter("ignore")

        def compile_to_module(graph):
            graph.init_wrapper_code()
            graph._update_scheduler()
            return _Computed(graph.module, planned_launches(graph), counter)

        patched.setattr(GraphLowering, "compile_to_module", compile_to_module)
        lay_out = backend.rows.lay_out

        def on_the_cpu(*arguments):
            counter.paused = True
            laid_out = lay_out(*arguments)
            counter.paused = False
            return laid_out

        patched.setattr(backend.rows, "lay_out", on_the_cpu)
        patched.setattr(card, "flex_attention", attend)
        yield counter
    torch.compiler.reset()
