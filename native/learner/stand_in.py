"""Writes the shared library (ELF, 64-bit, little-endian) that stands in for CUDA's on a machine without a GPU.

No compiler is needed: a function is a handful of instructions, for x86-64 or aarch64, and ignores what it is called
with. For the layout see elf(5); the loader needs no section headers, so there are none.

    offset          address          content
    0               the same         headers, hash table, symbols, versions, names, code
    after it        offset + PAGE    16 writable bytes, the dynamic section
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable

# The largest page of either machine.
PAGE = 0x10000
NO_DEVICE = 100
NO_DEVICE_TEXT = b"no CUDA-capable device is detected\0"
REFUSAL = b" was called, but this PyTorch was installed for the CPU only\n"
SIGABRT = 6


class X86:
    machine = 62
    write, getpid, gettid, tgkill = 1, 39, 186, 234

    @staticmethod
    def address(register: int, target: int, here: int) -> bytes:
        """lea register, [rip + distance]"""
        return struct.pack("<BBBi", 0x48, 0x8D, 0x05 | register << 3, target - here - 7)

    @staticmethod
    def number(register: int, value: int) -> bytes:
        """mov register, value (32 bits)"""
        return struct.pack("<BI", 0xB8 | register, value)

    @staticmethod
    def jump(target: int, here: int) -> bytes:
        return struct.pack("<Bi", 0xE9, target - here - 5)

    back = b"\xc3"
    trap = b"\x0f\x0b"
    # Registers: of a result (rax), of a system call's arguments (rdi, rsi, rdx), one that such calls keep (rbx).
    result, arguments, kept = 0, (7, 6, 2), 3

    @classmethod
    def call(cls, number: int) -> bytes:
        """syscall; its result is in eax"""
        return cls.number(0, number) + b"\x0f\x05"

    @staticmethod
    def move(to: int, register: int) -> bytes:
        return bytes([0x89, 0xC0 | register << 3 | to])


class Arm64:
    machine = 183
    write, getpid, gettid, tgkill = 64, 172, 178, 131

    @staticmethod
    def address(register: int, target: int, here: int) -> bytes:
        """adr register, distance"""
        distance = target - here
        if not -(1 << 20) <= distance < 1 << 20:
            raise ValueError(f"{distance} bytes are too far for one instruction")
        return struct.pack("<I", 0x10000000 | (distance & 3) << 29 | (distance >> 2 & 0x7FFFF) << 5 | register)

    @staticmethod
    def number(register: int, value: int) -> bytes:
        """movz register, value (16 bits)"""
        return struct.pack("<I", 0xD2800000 | value << 5 | register)

    @staticmethod
    def jump(target: int, here: int) -> bytes:
        return struct.pack("<I", 0x14000000 | (target - here >> 2 & 0x3FFFFFF))

    back = struct.pack("<I", 0xD65F03C0)
    trap = struct.pack("<I", 0xD4200000)
    result, arguments, kept = 0, (0, 1, 2), 19

    @classmethod
    def call(cls, number: int) -> bytes:
        """svc 0; its result is in x0"""
        return cls.number(8, number) + struct.pack("<I", 0xD4000001)

    @staticmethod
    def move(to: int, register: int) -> bytes:
        return struct.pack("<I", 0xAA0003E0 | register << 16 | to)


MACHINES = {machine.machine: machine for machine in (X86, Arm64)}


class Code:
    def __init__(self, start: int) -> None:
        self.start = start
        self.bytes = bytearray()

    @property
    def here(self) -> int:
        return self.start + len(self.bytes)

    def add(self, *parts: bytes) -> int:
        """Returns the address of the first part."""
        at = self.here
        for part in parts:
            self.bytes += part
        return at

    def align(self) -> None:
        self.bytes += bytes(-len(self.bytes) % 16)


def elf_hash(name: bytes) -> int:
    """The hash function of DT_HASH."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high
    return value


def hash_table(names: list[bytes]) -> bytes:
    """Symbol numbers by name; the first symbol is the empty one."""
    buckets = [0] * max(1, len(names))
    chain = [0] * (len(names) + 1)
    for number, name in enumerate(names, 1):
        bucket = elf_hash(name) % len(buckets)
        chain[number], buckets[bucket] = buckets[bucket], number
    return struct.pack(f"<{2 + len(buckets) + len(chain)}I", len(buckets), len(chain), *buckets, *chain)


def version_table(names: list[tuple[bytes, int]]) -> bytes:
    """The versions that a library offers, by name and place of the name; the first is the library itself."""
    table = b""
    for number, (name, place) in enumerate(names, 1):
        last = number == len(names)
        table += struct.pack("<HHHHIII", 1, int(number == 1), number, 1, elf_hash(name), 20, 0 if last else 28)
        table += struct.pack("<II", place, 0)
    return table


def write_functions(code: Code, machine: type[X86 | Arm64], names: dict[str, int], handle: int) -> dict[str, int]:
    """Adds the functions; `names` gives the address of each one's name, and the result that of its code."""
    first, second, third = machine.arguments
    text = code.add(NO_DEVICE_TEXT)
    refusal = code.add(REFUSAL)
    code.align()

    # Kernel registration, when a library is loaded.
    registered = code.add(machine.address(machine.result, handle, code.here), machine.back)
    no_device = code.add(machine.number(machine.result, NO_DEVICE), machine.back)
    described = code.add(machine.address(machine.result, text, code.here), machine.back)
    # A function's name and its length are in the second and third register: written to stderr, and the process aborts.
    refuse = code.add(machine.number(first, 2), machine.call(machine.write))
    code.add(machine.address(second, refusal, code.here))
    code.add(machine.number(first, 2), machine.number(third, len(REFUSAL)), machine.call(machine.write))
    code.add(machine.call(machine.getpid), machine.move(machine.kept, machine.result))
    code.add(machine.call(machine.gettid), machine.move(second, machine.result), machine.move(first, machine.kept))
    code.add(machine.number(third, SIGABRT), machine.call(machine.tgkill), machine.trap)

    def function(name: str) -> int:
        if name.startswith("__cuda"):
            return registered
        if name in ("cudaGetErrorString", "cudaGetErrorName"):
            return described
        if re.match(r"cuda[A-Z]", name):
            return no_device
        start = code.add(machine.address(second, names[name], code.here), machine.number(third, len(name)))
        code.add(machine.jump(refuse, code.here))
        return start

    return {name: function(name) for name in names}


def stand_in(symbols: Iterable[str], versions: Iterable[str], soname: str, machine: int) -> bytes:
    """A library of that name with all these functions, for a machine by its number in ELF headers (62, 183).

    The runtime API (cuda…) returns cudaErrorNoDevice, as the real one does without a device. Any other call ends the
    process with a message. A function stands for every version of its name; `versions` are those that programs ask the
    library for before they look for functions.
    """
    if machine not in MACHINES:
        raise ValueError(f"machine {machine} of ELF is neither x86-64 nor aarch64")
    wanted = sorted(symbols)
    encoded = [name.encode() for name in wanted]
    offered = [soname.encode(), *(name.encode() for name in sorted(set(versions)))]
    strings, offsets = b"\0", []
    for name in [*encoded, *offered]:
        offsets.append(len(strings))
        strings += name + b"\0"

    headers = 64 + 4 * 56
    table = hash_table(encoded)
    table += bytes(-len(table) % 8)
    symbols_at = headers + len(table)
    versions_at = symbols_at + 24 * (len(wanted) + 1)
    version_names = version_table(list(zip(offered, offsets[len(wanted) :], strict=True)))
    # Of each symbol: none for the empty one, "any" for the others.
    of_symbols = struct.pack(f"<{len(wanted) + 1}H", 0, *[1] * len(wanted))
    of_symbols_at = versions_at + len(version_names)
    strings_at = of_symbols_at + len(of_symbols)
    code_at = -(-(strings_at + len(strings)) // 16) * 16

    names = {name: strings_at + offset for name, offset in zip(wanted, offsets, strict=False)}
    # Its length does not depend on the handle's address, which comes after it.
    length = len(functions_at(code_at, machine, names, code_at)[0])
    data_offset = -(-(code_at + length) // 16) * 16
    data = data_offset + PAGE
    code, entries = functions_at(code_at, machine, names, data)

    symbol_table = bytes(24)
    for name, offset in zip(wanted, offsets, strict=False):
        # A global function of some section (none is described).
        symbol_table += struct.pack("<IBBHQQ", offset, 0x12, 0, 1, entries[name], 0)
    dynamic = [(14, offsets[len(wanted)]), (4, headers), (5, strings_at), (6, symbols_at), (10, len(strings)), (11, 24)]
    dynamic += [(0x6FFFFFF0, of_symbols_at), (0x6FFFFFFC, versions_at), (0x6FFFFFFD, len(offered)), (0, 0)]
    dynamic_bytes = b"".join(struct.pack("<QQ", tag, value) for tag, value in dynamic)
    writable = 16 + len(dynamic_bytes)

    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header = ident + struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 0, 0, 64, 56, 4, 64, 0, 0)
    # type, flags (4 read, 2 write, 1 execute), offset, address twice, size in the file and in memory, alignment
    loaded = code_at + len(code)
    segments = [
        (1, 5, 0, 0, 0, loaded, loaded, PAGE),
        (1, 6, data_offset, data, data, writable, writable, PAGE),
        (2, 6, data_offset + 16, data + 16, data + 16, len(dynamic_bytes), len(dynamic_bytes), 8),
        (0x6474E551, 6, 0, 0, 0, 0, 0, 16),
    ]
    program = b"".join(struct.pack("<IIQQQQQQ", *segment) for segment in segments)
    library = header + program + table + symbol_table + version_names + of_symbols + strings
    library = library.ljust(code_at, b"\0") + code
    return library.ljust(data_offset, b"\0") + bytes(16) + dynamic_bytes


def functions_at(start: int, machine: int, names: dict[str, int], handle: int) -> tuple[bytes, dict[str, int]]:
    code = Code(start)
    entries = write_functions(code, MACHINES[machine], names, handle)
    return bytes(code.bytes), entries
