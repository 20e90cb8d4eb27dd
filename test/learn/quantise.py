"""Quantises a GGUF file with the llama.cpp that node-llama-cpp plays with: `quantise.py LIBRARIES SOURCE TARGET TYPE`.

The gguf package writes few types. llama.cpp writes the mixtures of published files; TYPE is its name of one: Q4_0,
Q4_K_M, IQ4_XS ...
"""

import ctypes
import sys
from pathlib import Path

import gguf


class Parameters(ctypes.Structure):
    """llama.h's llama_model_quantize_params."""

    _fields_ = [
        ("threads", ctypes.c_int32),
        ("ftype", ctypes.c_int),
        ("output_tensor_type", ctypes.c_int),
        ("token_embedding_type", ctypes.c_int),
        *((name, ctypes.c_bool) for name in ("requantize", "output", "only_copy", "pure", "keep_split", "dry_run")),
        *((name, ctypes.c_void_p) for name in ("imatrix", "kv_overrides", "tensor_overrides", "prune_layers")),
        ("max_buffer_size", ctypes.c_size_t),
    ]


def main() -> None:
    libraries, source, target, kind = sys.argv[1:]
    # libllama.so or libllama.v0.5.0.so, with a version in its name. Each finds those before it in the process.
    for name in ("ggml-base", "ggml", "llama"):
        (path,) = [path for path in Path(libraries).glob(f"lib{name}.*") if "cpu" not in path.name]
        library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    library.llama_model_quantize_default_params.restype = Parameters
    library.llama_model_quantize.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(Parameters)]
    parameters = library.llama_model_quantize_default_params()
    parameters.threads = 1
    parameters.ftype = gguf.LlamaFileType[f"MOSTLY_{kind}"]
    if library.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(parameters)) != 0:
        sys.exit(f"{source} could not be quantised to {kind}")


main()
