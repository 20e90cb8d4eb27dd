"""Stand-ins for the libraries that a libggml-cuda.so is linked to, so that the real one can be loaded without a GPU.

    python cuda_stand_ins.py LIBGGML_CUDA FOLDER MAJOR none|device

Writes libcudart, libcublas and libcublasLt of that CUDA version, and the driver's libcuda.so.1, into FOLDER. They offer
every symbol that the library wants. The runtime answers what the real one does without a device (cudaErrorNoDevice);
or, with `device`, it lists one card of a gigabyte, on which nothing can be computed.
"""

import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__, "../../../native").resolve()))
from learner.cpu_torch import read_library

# What llama.cpp asks before it computes: how many devices, which, how much memory. The struct of properties begins with
# the name, has 500 bytes at least that are read, and every one of them may be zero.
DEVICE = """
#include <string.h>
int cudaGetDeviceCount(int *count) { *count = 1; return 0; }
int cudaGetDevice(int *device) { *device = 0; return 0; }
int cudaGetDeviceProperties(char *properties, int device) {
  memset(properties, 0, 500);
  strcpy(properties, "Stand-in GPU");
  return 0;
}
int cudaGetDeviceProperties_v2(char *properties, int device) { /* CUDA 12's name of it */
  memset(properties, 0, 500);
  strcpy(properties, "Stand-in GPU");
  return 0;
}
int cudaMemGetInfo(unsigned long *free, unsigned long *total) { *free = *total = 1 << 30; return 0; }
int cudaSetDevice(int device) { return 0; }
int cudaDeviceGetAttribute(int *value, int attribute, int device) { *value = 0; return 0; }
int cudaGetLastError(void) { return 0; }
int cudaDeviceGetPCIBusId(char *id, int length, int device) { strncpy(id, "0000:01:00.0", length); return 0; }
int cudaDeviceCanAccessPeer(int *can, int device, int peer) { *can = 0; return 0; }
"""
DRIVER_DEVICE = """
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = 0; return 0; }
"""


def stand_in_source(symbols: set[str]) -> str:
    """C source that defines every symbol, as a function without parameters: arguments of a caller are ignored."""
    lines = [
        "#include <stdio.h>",
        "#include <stdlib.h>",
        "static void refuse(const char *name) {",
        '  fprintf(stderr, "%s was called, but this PyTorch was installed for the CPU only\\n", name);',
        "  abort();",
        "}",
        "static void *handle[1];",
    ]
    for symbol in sorted(symbols):
        if symbol.startswith("__cuda"):
            # Kernel registration, when a library is loaded.
            lines.append(f"void *{symbol}(void) {{ return handle; }}")
        elif symbol in ("cudaGetErrorString", "cudaGetErrorName"):
            lines.append(f'const char *{symbol}(void) {{ return "no CUDA-capable device is detected"; }}')
        elif re.match(r"cuda[A-Z]", symbol):
            lines.append(f"int {symbol}(void) {{ return 100; }}")  # cudaErrorNoDevice
        else:
            lines.append(f'void {symbol}(void) {{ refuse("{symbol}"); }}')
    return "\n".join(lines) + "\n"


def make(name: str, symbols: set[str], folder: Path, own: str, version: str | None) -> None:
    defined = set(re.findall(r"^int (\w+)\(", own, re.MULTILINE)) & symbols
    file = folder / f"{name}.c"
    file.write_text(stand_in_source(symbols - defined) + own)
    command = ["cc", "-w", "-O1", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", str(folder / name), str(file)]
    if version:
        script = folder / f"{name}.map"
        script.write_text(f"{version} {{ global: *; }};\n")
        command.append(f"-Wl,--version-script={script}")
    subprocess.run(command, check=True)


def main(library: str, target: str, major: str, answer: str) -> None:
    wanted = read_library(Path(library)).undefined
    folder = Path(target)
    folder.mkdir(parents=True, exist_ok=True)
    device = answer == "device"

    def those(pattern: str) -> set[str]:
        return {symbol for symbol in wanted if re.match(pattern, symbol)}

    cudart, cublas = f"libcudart.so.{major}", f"libcublas.so.{major}"
    make(cudart, those(r"(__)?cuda"), folder, DEVICE if device else "", cudart)
    make(cublas, those(r"cublas"), folder, "", cublas)
    make(f"libcublasLt.so.{major}", set(), folder, "", None)
    make("libcuda.so.1", those(r"cu[A-Z]"), folder, DRIVER_DEVICE if device else "", None)


if __name__ == "__main__":
    main(*sys.argv[1:])
