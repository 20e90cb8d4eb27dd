"""Errors whose message is shown to the user unchanged."""


class Refused(Exception):
    """The learner refuses the request and would refuse it again. One line: what is wrong and how to fix it."""


class Misunderstood(Refused):
    """No request of this learner: hone and it are not of one version."""


_NO_MEMORY = (
    # The CPU's allocator.
    "can't allocate memory",
    "not enough memory",
    # CUDA itself, when its libraries or a new context need memory.
    "CUDA out of memory",
    "CUDA error: out of memory",
    "cudaErrorMemoryAllocation",
    # The driver, called by PyTorch's allocator or by Triton, which loads a kernel's code at its first use.
    "CUDA driver error: out of memory",
    "Triton Error [CUDA]: out of memory",
    # Its libraries allocate memory besides PyTorch's, with error messages of their own.
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUSOLVER_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "ALLOCATION_FAILED",
)


def is_out_of_memory(error: BaseException) -> bool:
    """PyTorch has an exception type for its own allocator on CUDA; all others are recognised by their message."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error)
    # A handle that could not allocate its memory is "not initialized".
    no_handle = "CUBLAS_STATUS_NOT_INITIALIZED" in text and "cublasCreate" in text
    return no_handle or any(words in text for words in _NO_MEMORY)
