"""A card for PyTorch's compiler alone: what is compiled for it is lowered as for CUDA, on a machine without one.

Tensors are fake: they are on the card, and nothing is computed. The compiler chooses kernels, joins them, and writes
the source of FlexAttention's; no other code is generated, and Triton, which would compile it, is not needed. The
backward pass is left out: autograd asks CUDA itself for a device, whatever the tensors are.
"""

import warnings
from contextlib import contextmanager
from types import SimpleNamespace

import torch
from torch._dynamo.device_interface import CudaInterface
from torch._functorch import config as functorch
from torch._inductor import config as inductor
from torch._inductor import scheduler, select_algorithm
from torch._inductor.graph import GraphLowering
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _triton

CARD = torch.device("cuda", 0)


def properties(capability):
    """Of an RTX 4090 (8.9) but for the compute capability."""
    return SimpleNamespace(
        name="NVIDIA Fake",
        major=capability[0],
        minor=capability[1],
        multi_processor_count=128,
        warp_size=32,
        regs_per_multiprocessor=65536,
        max_threads_per_multi_processor=1536,
        max_threads_per_block=1024,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=101376,
        shared_memory_per_multiprocessor=102400,
        total_memory=24 * 2**30,
        L2_cache_size=72 * 2**20,
    )


@contextmanager
def fake_card(monkeypatch, capability):
    """Gives a list that gets each graph that is lowered within it. What is computed there has to be on CARD."""
    card = properties(capability)
    lowered = []

    def compile_to_module(graph):
        graph.init_wrapper_code()
        graph._update_scheduler()
        lowered.append(graph)
        # Computes shapes alone.
        run = torch.fx.Interpreter(graph.module).run
        return SimpleNamespace(call=lambda inputs: run(*inputs), __file__="none")

    with (
        # Others would find graphs without code in the caches.
        inductor.patch(fx_graph_cache=False),
        functorch.patch(enable_autograd_cache=False),
        monkeypatch.context() as patched,
        FakeTensorMode(allow_non_fake_inputs=True),
        torch.no_grad(),
        warnings.catch_warnings(),
    ):
        # Code of the compiler's looks whether inputs are aligned; fake ones are at address 0.
        warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor")
        # Fake tensors have no memory of the host's to pin.
        patched.setattr(torch.Tensor, "pin_memory", lambda values, *_: values)
        for place in (torch.cuda, CudaInterface, CudaInterface.Worker):
            patched.setattr(place, "get_device_properties", staticmethod(lambda *_: card))
        patched.setattr(torch.cuda, "get_device_capability", lambda *_: capability)
        patched.setattr(CudaInterface, "is_bf16_supported", staticmethod(lambda *_, **__: True))
        patched.setattr(GraphLowering, "compile_to_module", compile_to_module)
        patched.setattr(scheduler, "has_triton", lambda: True)
        patched.setattr(_triton, "triton_hash_with_backend", lambda: "none")
        # Imports a kernel's source, which imports Triton.
        source = SimpleNamespace(__file__="none", key="none")
        patched.setattr(select_algorithm.PyCodeCache, "load", lambda *_, **__: source)
        yield lowered
    torch.compiler.reset()
