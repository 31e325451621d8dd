"""Reads and writes safetensors files, a tensor at a time.

The format (huggingface.co/docs/safetensors): eight bytes, the header's length as a little-endian number; the header,
a JSON object of names, each with its dtype, shape and offsets; the tensors' bytes, little-endian, in C order.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from port.errors import BrokenWeights, UsageError
from port.moves import Box
from port.weights.ahead import made_ahead
from port.weights.box_files import copied_box
from port.weights.contiguous import write_array
from port.weights.metadata import Metadata, write_again
from port.weights.safetensors_header import LARGEST_HEADER, METADATA, Header, parse_header
from port.weights.tensors import Checkpoint, Tensor, dtypes

_NAMES = {
    "BOOL": "bool",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2": "float8_e5m2",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
} | {f"{letter}{bits}": f"{kind}{bits}" for letter, kind in (("I", "int"), ("U", "uint")) for bits in (8, 16, 32, 64)}


@cache
def _dtypes() -> dict[str, np.dtype]:
    return {code: dtypes()[name] for code, name in _NAMES.items()}


@cache
def _codes() -> dict[np.dtype, str]:
    return {dtype: code for code, dtype in _dtypes().items()}


def open_safetensors(path: Path | str) -> Checkpoint:
    """Open a safetensors file, mapped into memory; its header is read and validated.

    Raises:
        BrokenWeights: the file cannot be read, or is invalid.
    """
    path = Path(path)
    try:
        with open(path, "rb") as file:
            header = _read_header(path, file)
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise BrokenWeights(f"{path} cannot be read as a safetensors file: {error.strerror or error}") from error

    def read(name: str) -> np.ndarray:
        info = header.tensors[name]
        count = info.nbytes // info.dtype.itemsize
        array = np.frombuffer(mapped, info.dtype, count, header.begins[name]).reshape(info.shape)
        # A header of any length is allowed, and data that is not aligned to its dtype is slow or rejected elsewhere.
        return array if array.flags.aligned else array.copy()

    def read_box(name: str, box: Box) -> np.ndarray:
        return copied_box(mapped, read(name), box, header.begins[name])

    return Checkpoint(path, "safetensors", header.tensors, read, metadata=header.metadata, box_reader=read_box)


def _read_header(path: Path, file: BinaryIO) -> Header:
    size = os.fstat(file.fileno()).st_size
    if size < 8:
        raise BrokenWeights(
            f"{path} is not a safetensors file: it has {size} bytes, but the first 8 encode the header's length"
        )
    (length,) = struct.unpack("<Q", file.read(8))
    if length > min(size - 8, LARGEST_HEADER):
        limit = f"the format allows {LARGEST_HEADER}" if length > LARGEST_HEADER else f"the file has {size} in all"
        raise BrokenWeights(
            f"{path} is not a complete safetensors file: its first 8 bytes say that the header has {length} bytes, but "
            f"{limit}. A download may have been cut short"
        )
    return parse_header(path, file.read(length), size, _dtypes())


def write_safetensors(path: Path, tensors: Sequence[Tensor], metadata: Metadata = dict) -> None:
    """Write one safetensors file; each tensor is read while the one before it is written.

    The metadata is requested before the tensors and again after them, when the header is rewritten.

    Tensors of larger elements come first, so that each is aligned, then names decide: the same tensors make the same
    file, in whatever order they are passed.

    Raises:
        UsageError: a name or metadata that the format cannot store.
        BrokenWeights: a dtype that the format lacks; a tensor that differs from its declaration.
        OSError: the file cannot be written.
    """
    header: dict[str, Any] = {}
    in_file = sorted(tensors, key=lambda tensor: (-tensor.dtype.itemsize, tensor.name))
    begin = 0
    for tensor in in_file:
        code = _codes().get(tensor.dtype.newbyteorder("="))
        if code is None:
            raise BrokenWeights(
                f"{tensor.name} is {tensor.dtype}, which safetensors lacks: it has {', '.join(_NAMES.values())}"
            )
        if tensor.name == METADATA:
            raise UsageError(f"a tensor cannot be named {METADATA} in a safetensors file: the format uses that name")
        end = begin + tensor.nbytes
        header[tensor.name] = {"dtype": code, "shape": list(tensor.shape), "data_offsets": [begin, end]}
        begin = end
    encoded = _encoded(metadata(), header)
    if len(encoded) > LARGEST_HEADER:
        raise UsageError(
            f"the header would have {len(encoded)} bytes, and the format allows {LARGEST_HEADER}: write several files "
            "(max_shard_size)"
        )
    with made_ahead(in_file) as ordered, open(path, "wb") as file:
        file.write(struct.pack("<Q", len(encoded)) + encoded)
        for tensor in ordered:
            write_array(file, tensor.array())
        write_again(file, 8, encoded, _encoded(metadata(), header))


def _encoded(metadata: dict[str, str], tensors: dict[str, Any]) -> bytes:
    header = {METADATA: metadata, **tensors} if metadata else tensors
    try:
        encoded = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        return encoded + b" " * (-len(encoded) % 8)  # the tensors begin on a boundary of 8
    except UnicodeEncodeError as error:
        raise UsageError(
            f"a name that is no text in UTF-8: {error.object[max(0, error.start - 20) :][:40]!r}"
        ) from error
