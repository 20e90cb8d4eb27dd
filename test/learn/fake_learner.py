"""A learner without a model: does what its argument says. It speaks through the real protocol module."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time

from learner import protocol
from learner.lifeline import guard

behaviour = sys.argv[1]
INFO = {
    "backend": "peft",
    "device": "cpu",
    "offloaded": False,
    "blocks": False,
    "cuda": None,
    "precision": "f32",
    "architecture": "qwen2",
    "weights": "f16",
    "parameters": {"total": 2, "trainable": 1},
    "versions": {},
    "updates": 0,
    "seconds": 0.5,
}

print(f"noise on stdout {behaviour}", flush=True)
print(f"kernels in {os.environ['TORCHINDUCTOR_CACHE_DIR']}", flush=True)
print(f"keeps compiled modules: {not sys.dont_write_bytecode}", flush=True)
print(f"names of files in {sys.getfilesystemencoding()}", flush=True)
os.write(2, b'{"type": "error"} on stderr\n')
if behaviour == "silent":
    time.sleep(100)
if behaviour == "wrong version":
    protocol.VERSION = 99
if behaviour == "import error":
    raise ImportError("no module named torch")
if behaviour == "mute":
    protocol.BEAT_SECONDS = 1000.0


class MallocInfo(ctypes.Structure):
    """struct mallinfo2: `arena` and `hblkhd` are the bytes that glibc has from the system, in its heaps and mapped one by one."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd")]
    _fields_ += [(name, ctypes.c_size_t) for name in ("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


def held_after_freeing() -> int:
    """Bytes that glibc keeps after half of 60 blocks of 2 MB were freed, each beside one still in use."""
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = MallocInfo
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]

    def block(size: int) -> int:
        address = libc.malloc(size)
        ctypes.memset(address, 1, size)
        return address

    def kept() -> int:
        found = libc.mallinfo2()
        return found.arena + found.hblkhd

    # Freeing a large block is what makes glibc raise its threshold.
    libc.free(block(30_000_000))
    before = kept()
    blocks = [block(2_000_000) for _ in range(60)]
    for address in blocks[::2]:
        libc.free(address)
    return kept() - before


guard(protocol.CONTROL_FD)
connection = protocol.Connection()
connection.start()
for request in connection.requests():
    number = request["id"]
    if request["type"] == "open":
        connection.send({"type": "progress", "id": number, "phase": "loading", "done": 1, "total": 1})
        connection.send({"type": "done", "id": number, "result": INFO})
    elif behaviour == "free":
        connection.send({"type": "error", "id": number, "code": "failed", "message": f"held {held_after_freeing()}"})
    elif behaviour == "die":
        print("Segmentation fault in some kernel", flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    elif behaviour == "garbage":
        os.write(protocol.REPORT_FD, b"Unsloth: welcome!\n")
    elif behaviour == "unknown answer":
        connection.send({"type": "greeting", "id": number})
    elif behaviour == "wrong result":
        connection.send({"type": "done", "id": number, "result": {"loss": "low"}})
    elif behaviour in ("refused", "memory", "failed"):
        connection.send({"type": "error", "id": number, "code": behaviour, "message": f"{behaviour}, it said"})
    elif behaviour == "with a worker":
        worker = subprocess.Popen(["sleep", "100"])
        connection.send({"type": "progress", "id": number, "phase": "worker", "done": worker.pid, "total": 1})
        time.sleep(100)
    elif behaviour == "waits":
        for _ in range(30):
            time.sleep(0.2)
            connection.send({"type": "beat", "progress": True})
        connection.send({"type": "error", "id": number, "code": "refused", "message": "waited, it said"})
    elif behaviour in ("hang", "mute"):
        time.sleep(100)
    else:
        print(json.dumps(request), flush=True)
