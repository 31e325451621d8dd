"""Writes a state dict as ``torch.save`` does, a tensor at a time, without torch.

It is an uncompressed zip archive: ``data.pkl`` is a pickle that rebuilds each tensor from a storage, ``data/0`` and so
on are the storages' bytes. `torch.load` reads it with ``weights_only=True``, and maps it into memory.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZIP64_LIMIT, ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from port.errors import BrokenWeights
from port.weights.ahead import made_ahead
from port.weights.contiguous import write_array
from port.weights.tensors import Tensor, dtypes

STORAGES = {
    "float64": "Double",
    "float32": "Float",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "int64": "Long",
    "int32": "Int",
    "int16": "Short",
    "int8": "Char",
    "uint8": "Byte",
    "bool": "Bool",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}
"""dtype → torch's storage class, without ``Storage`` at the end; newer dtypes have none, and are stored as bytes."""

_BOUNDARY = 64
"""Bytes: the alignment of torch's storages."""
_HEADER = 30
"""Bytes of a zip entry's header, without the name and the extra field."""
_PADDING = b"FB"  # the extra field that PyTorch uses for padding


def write_torch(path: Path, tensors: Sequence[Tensor]) -> None:
    """Write one file; tensors that share memory are written separately.

    Raises:
        BrokenWeights: a dtype that weights cannot have; a tensor that differs from its declaration.
        OSError: the file cannot be written.
    """
    for tensor in tensors:
        if tensor.dtype.name not in dtypes():
            raise BrokenWeights(f"{tensor.name} is {tensor.dtype}; those that can be written are {', '.join(dtypes())}")
    with made_ahead(tensors) as ordered, ZipFile(path, "w", ZIP_STORED, allowZip64=True) as archive:
        archive.writestr(_entry(archive, "data.pkl"), _pickle(tensors))
        archive.writestr(_entry(archive, "byteorder"), b"little")
        for number, tensor in enumerate(ordered):
            with archive.open(_entry(archive, f"data/{number}", tensor.nbytes), "w") as file:
                write_array(file, tensor.array())
        archive.writestr(_entry(archive, "version"), b"3\n")


def _entry(archive: ZipFile, name: str, size: int = 0) -> ZipInfo:
    """An entry with aligned content."""
    entry = ZipInfo(f"archive/{name}")
    entry.file_size = size
    # A large entry has its sizes in an extra field of 20 bytes (zipfile reserves 5 % for itself).
    wide = 20 if size * 1.05 > ZIP64_LIMIT else 0
    begin = archive.fp.tell() + _HEADER + len(entry.filename) + wide + 4  # type: ignore[union-attr]
    padding = -begin % _BOUNDARY
    entry.extra = _PADDING + struct.pack("<H", padding) + b"Z" * padding
    return entry


def _pickle(tensors: Sequence[Tensor]) -> bytes:
    """The program, in pickle's protocol 2, that makes the dict: one `torch._utils` call per tensor."""
    items = b"".join(_text(tensor.name) + _rebuilt(str(number), tensor) for number, tensor in enumerate(tensors))
    return b"\x80\x02" + _ORDERED_DICT + b"(" + items + b"u."


_ORDERED_DICT = b"ccollections\nOrderedDict\n)R"


def _rebuilt(key: str, tensor: Tensor) -> bytes:
    kind = STORAGES.get(tensor.dtype.name)
    count = tensor.nbytes // (tensor.dtype.itemsize if kind else 1)
    module, name = ("torch", f"{kind}Storage") if kind else ("torch.storage", "UntypedStorage")
    storage = b"(" + _text("storage") + _named(module, name) + _text(key) + _text("cpu") + _number(count) + b"tQ"
    shape, stride = _tuple(tensor.shape), _tuple(_strides(tensor.shape))
    begin = storage + _number(0) + shape + stride + b"\x89" + _ORDERED_DICT  # no gradient, no hooks
    if kind:
        return _named("torch._utils", "_rebuild_tensor_v2") + b"(" + begin + b"tR"
    dtype = _named("torch", tensor.dtype.name)
    return _named("torch._utils", "_rebuild_tensor_v3") + b"(" + begin + dtype + b"N" + b"tR"


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of an array in C order, in elements."""
    sizes = [max(size, 1) for size in shape]
    return tuple(int(np.prod(sizes[axis + 1 :], dtype=np.int64)) for axis in range(len(shape)))


def _text(text: str) -> bytes:
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise BrokenWeights(f"a name that is no text in UTF-8: {text!r:.60}") from error
    return b"X" + struct.pack("<I", len(encoded)) + encoded


def _named(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def _number(value: int) -> bytes:
    if value < 2**31:
        return b"J" + struct.pack("<i", value)
    return b"\x8a\x08" + struct.pack("<q", value)


def _tuple(numbers: tuple[int, ...]) -> bytes:
    return b"(" + b"".join(map(_number, numbers)) + b"t"
