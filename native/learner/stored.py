"""The tensors of a checkpoint's files, each as a part of the mapped file.

The libraries that write them make objects of a tensor when they read it that take longer than to compare its numbers,
and Adam has a thousand tensors.
"""

import functools
import json
import math
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy

from .errors import Refused
from .gguf_header import HeaderReader

Arrays = dict[str, numpy.ndarray]

_BROKEN = (ValueError, TypeError, LookupError, EOFError, struct.error, zipfile.BadZipFile, pickle.UnpicklingError)
"""What reading a file raises that is not what it should be."""
_STORAGES = {"FloatStorage": numpy.dtype(numpy.float32), "ByteStorage": numpy.dtype(numpy.uint8)}
"""PyTorch's names for the types of a checkpoint's tensors."""


def _whole(read: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """Raises Refused where a file is not whole."""

    @functools.wraps(read)
    def checked(path: Path) -> Any:
        try:
            return read(path)
        except _BROKEN as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            raise Refused(f"{path.name} of the checkpoint has not what was written to it ({reason})") from error

    return checked


@_whole
def of_safetensors(path: Path) -> Arrays:
    """Raises Refused where a tensor is not in f32, as hone writes it."""
    whole = _mapped(path)
    start = 8 + struct.unpack_from("<Q", whole)[0]
    header = json.loads(whole[8:start].tobytes())
    header.pop("__metadata__", None)
    found: Arrays = {}
    for name, about in header.items():
        if about["dtype"] != "F32":
            raise _not_f32(path, name)
        found[name] = numpy.ndarray(about["shape"], numpy.float32, whole, start + about["data_offsets"][0])
    return found


@_whole
def of_gguf(path: Path) -> tuple[gguf.GGUFReader, Arrays]:
    """The file's fields, and its tensors. Raises Refused where one is not in f32."""
    reader = _Listed(path)
    whole, start = numpy.asarray(reader.data), int(reader.data_offset)
    found: Arrays = {}
    for name, shape, kind, offset in reader.listed:
        if kind != gguf.GGMLQuantizationType.F32:
            raise _not_f32(path, name)
        found[name] = numpy.ndarray(shape, numpy.float32, whole, start + offset)
    return reader, found


@_whole
def of_pickle(path: Path) -> Any:
    """What `torch.save` has written there, with arrays in the place of tensors. Nothing of the file is run. Raises
    Refused where it has objects that hone does not write."""
    with zipfile.ZipFile(path) as file:
        # They are in a folder that has the file's name.
        records = {one.filename.partition("/")[2]: one for one in file.infolist()}
        with file.open(records["data.pkl"]) as opened:
            return _Unpickler(opened, _mapped(path), records).load()


def _mapped(path: Path) -> numpy.ndarray:
    return numpy.asarray(numpy.memmap(path, mode="r"))


def _not_f32(path: Path, name: str) -> Refused:
    return Refused(f"{path.name} of the checkpoint has {name} in another type than f32")


class _Listed(HeaderReader):
    """Without gguf-py's objects of tensors."""

    def _build_tensor_info(self, offs: int, count: int) -> tuple[int, list[gguf.ReaderField]]:
        self.listed: list[tuple[str, tuple[int, ...], int, int]] = []
        """Of each tensor its name, shape, type, and offset in bytes."""
        at, data = int(offs), memoryview(self.data)
        for _ in range(int(count)):
            (length,) = struct.unpack_from("=Q", data, at)
            at += 8 + length
            name = str(data[at - length : at], "utf-8")
            (dimensions,) = struct.unpack_from("=I", data, at)
            *shape, kind, offset = struct.unpack_from(f"={dimensions}QIQ", data, at + 4)
            at += 16 + 8 * dimensions
            self.listed.append((name, tuple(reversed(shape)), kind, offset))
        return at, []


class _Unpickler(pickle.Unpickler):
    def __init__(self, opened: Any, whole: numpy.ndarray, records: dict[str, zipfile.ZipInfo]) -> None:
        super().__init__(opened)
        self._whole, self._records = whole, records
        self._storages: Arrays = {}

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in _STORAGES:
            return _STORAGES[name]
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _part
        if (module, name) == ("collections", "OrderedDict"):
            return dict
        raise Refused(f"the optimizer's file of the checkpoint has {module}.{name}, which hone does not write")

    def persistent_load(self, pid: Any) -> numpy.ndarray:
        _, kind, key, _, _ = pid
        if key not in self._storages:
            record = self._records[f"data/{key}"]
            # Before a record's bytes, which are not compressed, are 30 others, its name, and what fills up to a
            # multiple of 64: of lengths that the list at the file's end has not.
            lengths = struct.unpack_from("<HH", self._whole, record.header_offset + 26)
            start = record.header_offset + 30 + sum(lengths)
            self._storages[key] = self._whole[start : start + record.file_size].view(kind)
        return self._storages[key]


def _part(
    storage: numpy.ndarray, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any
) -> numpy.ndarray:
    numbers, by_rows = _layout(shape)
    if strides == by_rows:
        return storage[offset : offset + numbers].reshape(shape)
    size = storage.itemsize
    return numpy.ndarray(shape, storage.dtype, storage, size * offset, [size * one for one in strides])


@functools.cache
def _layout(shape: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """The count of numbers, and the strides of a tensor that has them row by row."""
    return math.prod(shape), tuple(math.prod(shape[number + 1 :]) for number in range(len(shape)))
