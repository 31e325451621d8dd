"""Reads and writes Flax's msgpack files (`flax.serialization`), an array at a time.

An array is msgpack's extension 1 (a numpy scalar: 3) around (shape, dtype's name, bytes). One of more than 1 GiB is
a map instead: its shape, and chunks of its elements in C order, each an array.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from port.errors import BrokenWeights
from port.weights.ahead import made_ahead
from port.weights.contiguous import write_array
from port.weights.msgpack_scan import Blob, MsgpackScan
from port.weights.nesting import dotted, flat, nested
from port.weights.tensors import Checkpoint, Tensor, TensorInfo, dtypes

_ARRAY, _SCALAR = 1, 3  # flax.serialization's extension codes
_CHUNKED = "__msgpack_chunked_array__"
_BYTES, _EXTENSION = 0xC6, 0xC9  # msgpack's heads with a length of 32 bits
LARGEST_PIECE = 2**30
"""Bytes that are written as one array; flax.serialization.MAX_CHUNK_SIZE."""


@dataclass(frozen=True)
class _Array:
    """An array's shape and dtype, and the position of its bytes, in one piece or in several."""

    info: TensorInfo
    begins: tuple[int, ...]
    counts: tuple[int, ...]


def open_msgpack(path: Path | str) -> Checkpoint:
    """Open a file of ``flax.serialization.to_bytes``, mapped into memory; its dicts and lists become dotted names.

    Raises:
        BrokenWeights: the file cannot be read, is incomplete, or is invalid.
    """
    path = Path(path)
    try:
        with open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        scan = MsgpackScan(data)
        tree = scan.value()
        if not isinstance(tree, dict):
            raise ValueError("a checkpoint is a map of names, but its outermost value is not")
        if scan.at < len(data):
            raise ValueError(f"the map ends at byte {scan.at}, but the file continues to {len(data)}")
        leaves = list(flat(_with_arrays(data, tree)))
    except (OSError, ValueError) as error:
        raise BrokenWeights(f"{path} cannot be read as a msgpack file of flax: {error}") from error
    arrays: dict[str, _Array] = {}
    left_out: dict[str, str] = {}
    for parts, leaf in leaves:
        name = dotted(parts)
        if name in arrays or name in left_out:
            raise BrokenWeights(f"{path}: two values would both be named {name!r}, for a key has a dot in it")
        if isinstance(leaf, _Array):
            arrays[name] = leaf
        else:
            left_out[name] = f"not an array: {leaf!r:.40}"

    def read(name: str) -> np.ndarray:
        array = arrays[name]
        places = zip(array.begins, array.counts, strict=True)
        parts = [np.frombuffer(data, array.info.dtype, count, begin) for begin, count in places]
        whole = (parts[0] if len(parts) == 1 else np.concatenate(parts)).reshape(array.info.shape)
        return whole if whole.flags.aligned else whole.copy()

    return Checkpoint(path, "msgpack", {name: array.info for name, array in arrays.items()}, read, left_out=left_out)


def _with_arrays(data: mmap.mmap, value: Any, name: str = "") -> Any:
    """The tree with an `_Array` for each encoded array."""
    if isinstance(value, dict):
        branches = {key: _with_arrays(data, branch, f"{name}.{key}" if name else key) for key, branch in value.items()}
        return _joined(name, branches) if _CHUNKED in value else branches
    if isinstance(value, list):
        return [_with_arrays(data, branch, f"{name}.{position}") for position, branch in enumerate(value)]
    if isinstance(value, Blob) and value.code in (_ARRAY, _SCALAR):
        return _array(data, value, name)
    return value


def _array(data: mmap.mmap, blob: Blob, name: str) -> _Array:
    scan = MsgpackScan(data, blob.begin, blob.begin + blob.length)
    content = scan.value()
    if not isinstance(content, list) or len(content) != 3 or scan.at != scan.end:
        raise ValueError(f"{name} must be (shape, dtype, bytes), but is not")
    shape, dtype, place = content
    if dtype not in dtypes():
        raise ValueError(f"{name} has the dtype {dtype!r:.40}; those that can be read are {', '.join(dtypes())}")
    info = TensorInfo(_shape(name, shape), dtypes()[dtype])
    if not isinstance(place, Blob) or place.length != info.nbytes:
        raise ValueError(f"{name} is {dtype} of shape {info.shape}: {info.nbytes} bytes, but the file has fewer")
    return _Array(info, (place.begin,), (math.prod(info.shape),))


def _joined(name: str, content: dict[str, Any]) -> _Array:
    """Join an array's chunks."""
    pieces = content.get("chunks")
    shape = content.get("shape")
    if not isinstance(pieces, dict) or not pieces or not isinstance(shape, dict):
        raise ValueError(f"{name} must have chunks and a shape, but has not")
    chunks = [pieces.get(str(place)) for place in range(len(pieces))]
    arrays = [chunk for chunk in chunks if isinstance(chunk, _Array)]
    if len(arrays) < len(chunks) or len({array.info.dtype for array in arrays}) > 1:
        raise ValueError(f"{name} must have chunks numbered from 0, all arrays of one dtype, but has not")
    info = TensorInfo(_shape(name, [shape.get(str(axis)) for axis in range(len(shape))]), arrays[0].info.dtype)
    counts = tuple(math.prod(array.info.shape) for array in arrays)
    if sum(counts) != math.prod(info.shape):
        raise ValueError(f"{name} of shape {info.shape} has chunks of {sum(counts)} elements in all")
    return _Array(info, tuple(array.begins[0] for array in arrays), counts)


def _shape(name: str, sizes: Any) -> tuple[int, ...]:
    if not isinstance(sizes, list) or len(sizes) > 64 or not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError(f"{name} has the shape {sizes!r:.40}, but a shape is whole numbers, none negative")
    if math.prod(size for size in sizes if size) > 2**59:
        raise ValueError(f"{name} has a shape that no array can have: {sizes!r:.60}")
    return tuple(sizes)


def write_msgpack(path: Path, tensors: Sequence[Tensor]) -> None:
    """Write one file as ``flax.serialization.to_bytes`` does, nested at the names' dots, one tensor at a time.

    Raises:
        UsageError: names that cannot be nested.
        BrokenWeights: a dtype that weights cannot have; a tensor that differs from its declaration.
        OSError: the file cannot be written.
    """
    tree = nested({tensor.name: tensor for tensor in tensors})
    for tensor in tensors:
        if tensor.dtype.name not in dtypes():
            raise BrokenWeights(f"{tensor.name} is {tensor.dtype}; those that can be written are {', '.join(dtypes())}")
    in_tree = [tensor for _, tensor in flat(tree)]
    with made_ahead(in_tree) as ordered, open(path, "wb") as file:
        _write(file, nested({tensor.name: tensor for tensor in ordered}))


def _write(file: BinaryIO, value: dict[str, Any] | Tensor) -> None:
    from msgpack import Packer

    packer = Packer()
    if isinstance(value, dict):
        file.write(packer.pack_map_header(len(value)))
        for key, branch in value.items():
            file.write(packer.pack(key))
            _write(file, branch)
    elif value.nbytes <= LARGEST_PIECE:
        _write_array(file, value.array())
    else:
        file.write(packer.pack_map_header(3))
        file.write(packer.pack(_CHUNKED) + packer.pack(True))
        file.write(packer.pack("shape") + packer.pack({str(axis): size for axis, size in enumerate(value.shape)}))
        elements = np.ascontiguousarray(value.array()).reshape(-1)
        each = LARGEST_PIECE // value.dtype.itemsize
        file.write(packer.pack("chunks") + packer.pack_map_header(-(-len(elements) // each)))
        for place, begin in enumerate(range(0, len(elements), each)):
            file.write(packer.pack(str(place)))
            _write_array(file, elements[begin : begin + each])


def _write_array(file: BinaryIO, array: np.ndarray) -> None:
    from msgpack import Packer

    packer = Packer()
    facts = packer.pack_array_header(3) + packer.pack(array.shape) + packer.pack(array.dtype.name)
    facts += struct.pack(">BI", _BYTES, array.nbytes)
    file.write(struct.pack(">BIb", _EXTENSION, len(facts) + array.nbytes, _ARRAY) + facts)
    write_array(file, array)
