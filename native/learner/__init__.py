"""hone's learner: turns batches of trajectories into a better adapter. Run as `python -m learner`, with
PYTHONPATH=native and the interpreter of the learner's environment; see __main__.py."""

import os

# Read when PyTorch is imported. Otherwise some of its own operations on a card, such as RoPE's product, are kernels
# that Triton compiles when they are called (PyTorch 2.13, torch/_native): without a C compiler and Python's headers no
# row could be computed in any way.
os.environ["TORCH_DISABLE_NATIVE_JIT"] = "1"
