"""Errors whose message reaches the user as it is."""


class Refused(Exception):
    """The learner will not do this, and would not the next time. One line: what is wrong and how to mend it."""


_NO_MEMORY = (
    # The CPU's allocator.
    "can't allocate memory",
    "not enough memory",
    # CUDA itself, where its libraries or a new context want some.
    "CUDA out of memory",
    "CUDA error: out of memory",
    "cudaErrorMemoryAllocation",
    # Its libraries take memory of their own, beside PyTorch's, and say it in words of their own.
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUSOLVER_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "ALLOCATION_FAILED",
)


def is_out_of_memory(error: BaseException) -> bool:
    """PyTorch has a type for its own allocator on CUDA; all others say it in a sentence."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error)
    # A handle that finds no memory for itself is "not initialized".
    no_handle = "CUBLAS_STATUS_NOT_INITIALIZED" in text and "cublasCreate" in text
    return no_handle or any(words in text for words in _NO_MEMORY)
