"""Reads and writes numpy's archives (.npz), an array at a time. Objects in them are never unpickled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy

from port.errors import BrokenWeights
from port.weights.ahead import made_ahead
from port.weights.contiguous import write_array
from port.weights.tensors import Checkpoint, Tensor, TensorInfo, dtypes

SUFFIX = ".npy"
"""The suffix of the entries' names."""


def is_npz(path: Path) -> bool:
    """Whether a zip archive has only numpy arrays."""
    try:
        with ZipFile(path) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
    except (OSError, ValueError, BadZipFile):
        return path.suffix.lower() == ".npz"
    return bool(names) and all(name.endswith(SUFFIX) for name in names)


def open_npz(path: Path | str) -> Checkpoint:
    """Open an archive of ``numpy.savez``, compressed or not; names with dots or slashes become dotted names.

    Raises:
        BrokenWeights: the file cannot be read, is incomplete, or has something other than arrays of numbers.
    """
    path = Path(path)
    try:
        archive = ZipFile(path)
        entries = {_name(entry): entry for entry in archive.infolist() if not entry.is_dir()}
        if len(entries) < sum(not entry.is_dir() for entry in archive.infolist()):
            raise ValueError("two of its arrays would have one name")
        tensors = {name: _info(archive, entry, name) for name, entry in entries.items()}
    except _ERRORS as error:
        cut = ". A download may have been cut short" if isinstance(error, BadZipFile) else ""
        raise BrokenWeights(f"{path} cannot be read as a numpy archive: {error}{cut}") from error

    def read(name: str) -> np.ndarray:
        try:
            with archive.open(entries[name]) as file:
                array = npy.read_array(file, allow_pickle=False)
            return array.astype(tensors[name].dtype, copy=False)
        except _ERRORS as error:
            raise BrokenWeights(f"{path}: {name} cannot be read: {error}") from error

    return Checkpoint(path, "npz", tensors, read)


_ERRORS = (OSError, ValueError, EOFError, RuntimeError, NotImplementedError, BadZipFile, SyntaxError, MemoryError)
"""What zipfile, zlib's users and numpy raise for broken files."""


def _name(entry: ZipInfo) -> str:
    if not entry.filename.endswith(SUFFIX):
        raise ValueError(f"its entry {entry.filename!r:.60} is not an array ({SUFFIX})")
    return entry.filename.removesuffix(SUFFIX).replace("/", ".")


def _info(archive: ZipFile, entry: ZipInfo, name: str) -> TensorInfo:
    with archive.open(entry) as file:
        version = npy.read_magic(file)
        read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
        if read_header is None:
            raise ValueError(f"{name} has version {version} of numpy's format; supported are 1.0 and 2.0")
        shape, _, dtype = read_header(file)
        begin = file.tell()
    if dtype.hasobject:
        raise ValueError(f"{name} contains Python objects, which are never unpickled: save arrays of numbers")
    if dtype.kind == "V":
        raise ValueError(
            f"{name} has elements of {dtype.itemsize} bytes of a dtype that numpy's files do not name (bfloat16, or "
            "an 8-bit float): save it as float32, or as safetensors"
        )
    if dtype.name not in dtypes():
        raise ValueError(f"{name} is {dtype}; those that can be read are {', '.join(dtypes())}")
    if math.prod(shape) * dtype.itemsize != entry.file_size - begin:
        raise ValueError(f"{name} is {dtype} of shape {shape}, but has only {entry.file_size - begin} bytes")
    return TensorInfo(shape, dtypes()[dtype.name])


def write_npz(path: Path, tensors: Sequence[Tensor]) -> None:
    """Write an archive as ``numpy.savez`` does: one entry per array, under its dotted name, uncompressed.

    Raises:
        BrokenWeights: a dtype that numpy's files cannot name; a tensor that differs from its declaration.
        OSError: the file cannot be written.
    """
    for tensor in tensors:
        if tensor.dtype.name not in dtypes() or dtypes()[tensor.dtype.name].isbuiltin != 1:
            raise BrokenWeights(
                f"{tensor.name} is {tensor.dtype}, which numpy's files cannot name: write float32 (--dtype), or "
                "another format (.safetensors)"
            )
    with made_ahead(tensors) as ordered, ZipFile(path, "w", ZIP_STORED, allowZip64=True) as archive:
        for tensor in ordered:
            entry = ZipInfo(f"{tensor.name}{SUFFIX}")
            entry.file_size = tensor.nbytes + 1000  # with room for the header: determines the width of the sizes
            with archive.open(entry, "w") as file:
                facts = {"descr": npy.dtype_to_descr(tensor.dtype.newbyteorder("<")), "shape": tensor.shape}
                npy.write_array_header_1_0(file, facts | {"fortran_order": False})
                write_array(file, tensor.array())
