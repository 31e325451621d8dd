"""Finds each storage in a ``torch.save`` file, and reads its tensors as arrays. Needs no torch.

The zip format is an uncompressed archive: ``data.pkl``, and each storage as ``data/KEY``. The format before torch 1.6
is five pickles (a magic number, the protocol, the system, the object, the storages' keys) followed by each storage: its
number of elements in eight bytes, then the elements.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any, cast
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from port.weights.pickles import Refused, Walk
from port.weights.saved_objects import DTYPES, SavedTensor, unpickled
from port.weights.tensors import dtypes

_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C  # torch/serialization.py; before it, files were tar archives
_LEGACY_PICKLES = 5
_LARGEST_CODE = 2**26  # bytes of a TorchScript program's source

Make = Callable[[SavedTensor], Any]


@dataclass
class Saved:
    """A file that has been examined, but of which nothing has been made yet.

    Attributes:
        data: the file, mapped into memory.
        places: a storage's key → its first byte, and the number of bytes.
        names: what its pickle names that no state dict needs: stubs replace it.
        pickle: the bytes of the object's pickle.
        is_swapped: whether it was written by a machine with the opposite byte order.
        code: the source by file, for a TorchScript program; otherwise None.
    """

    data: mmap.mmap | memoryview
    places: dict[str, tuple[int, int]]
    names: tuple[str, ...]
    pickle: bytes
    is_swapped: bool = False
    code: dict[str, str] | None = None

    def content(self, make: Make) -> Any:
        """Unpickle the object, with ``make`` applied to each tensor."""
        return unpickled(BytesIO(self.pickle), make)

    def array(self, tensor: SavedTensor, *, must_align: bool = True) -> np.ndarray:
        """View a tensor as an array over the mapped file.

        Args:
            tensor: a tensor of the file.
            must_align: copy data that is not aligned to its dtype.

        Raises:
            Refused: it exceeds its storage.
        """
        dtype = dtypes()[tensor.dtype]
        begin, held = self._place(tensor)
        reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.strides, strict=True))
        needed = 0 if 0 in tensor.shape else (tensor.offset + reach + 1) * dtype.itemsize
        if needed > held:
            raise Refused(f"a tensor of shape {tensor.shape} needs {needed} bytes of a storage that has {held}")
        if not needed:
            return np.empty(tensor.shape, dtype)
        flat = np.frombuffer(self.data, dtype, needed // dtype.itemsize, begin)
        if must_align and not flat.flags.aligned:
            flat = flat.copy()
        if self.is_swapped:
            flat = _swapped(flat)
        strides = tuple(stride * dtype.itemsize for stride in tensor.strides)
        array = np.ndarray(tensor.shape, dtype, flat.view(np.uint8).data, tensor.offset * dtype.itemsize, strides)
        array.flags.writeable = False
        array = np.conj(array) if "conj" in tensor.flags else array
        return np.negative(array) if "neg" in tensor.flags else array

    def held(self, tensor: SavedTensor) -> int:
        """The bytes of the tensor's storage."""
        return self._place(tensor)[1]

    def _place(self, tensor: SavedTensor) -> tuple[int, int]:
        if tensor.storage not in self.places:
            raise Refused(f"its storage {tensor.storage!r:.40} is missing")
        return self.places[tensor.storage]


def look_through(path: Path) -> Saved:
    """Examine a file without making anything from it.

    Raises:
        Refused: it is not from ``torch.save``, incomplete, or made to exhaust its reader.
        OSError, ValueError, EOFError, RuntimeError, BadZipFile: as zipfile raises them for a broken file.
    """
    size = path.stat().st_size
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        return look_through_archive(file, data) if file.read(4) == b"PK\x03\x04" else _legacy(data, size)


def look_through_archive(file: IO[bytes], data: mmap.mmap | memoryview) -> Saved:
    """Examine a file in the zip format, or a part of a larger file.

    Args:
        file: the archive.
        data: its bytes, mapped into memory.
    """
    size = len(data)
    with ZipFile(file) as archive:
        entries = archive.infolist()
        names = {entry.filename.partition("/")[2]: entry for entry in entries}
        is_program = "constants.pkl" in names
        packed = [entry.filename for entry in entries if entry.compress_type != ZIP_STORED]
        packed = [name for name in packed if not (is_program and "/code/" in name)]
        if packed:
            raise Refused(f"its entry {packed[0]!r:.60} is compressed, which torch.save does not do")
        if sum(entry.file_size for entry in entries if entry.compress_type == ZIP_STORED) > size:
            raise Refused(f"its entries claim more bytes than the file's {size}")
        if "data.pkl" not in names:
            raise Refused("it is a zip archive without data.pkl, so torch.save did not write it")

        def on_storage(key: str, kind: str, count: int) -> None:
            if f"data/{key}" not in names:
                raise Refused(f"its entry data/{key:.40} is missing")
            held = names[f"data/{key}"].file_size
            if count and (held % count or held // count not in (1, 2, 4, 8, 16)):
                raise Refused(f"its entry data/{key:.40} has {held} bytes, but should have {count} of {kind}")

        pickle = archive.read(names["data.pkl"])
        walk = Walk(BytesIO(pickle), size, on_storage, stubs=True)
        walk.pickle()
        order = archive.read(names["byteorder"]) if "byteorder" in names else b"little"
        code = _sources(archive, [entry for entry in entries if _is_source(entry.filename)])
    places = {
        name.removeprefix("data/"): _place(data, entry) for name, entry in names.items() if name.startswith("data/")
    }
    return Saved(data, places, tuple(walk.names), pickle, order == b"big", code if is_program else None)


def _place(data: mmap.mmap | memoryview, entry: ZipInfo) -> tuple[int, int]:
    """The bytes of an uncompressed entry: after its own header, its name and the extra field."""
    header = data[entry.header_offset : entry.header_offset + 30]
    if header[:4] != b"PK\x03\x04":
        raise Refused(f"its entry {entry.filename!r:.60} has no header")
    begin = entry.header_offset + 30 + sum(struct.unpack("<HH", header[26:30]))
    if begin + entry.file_size > len(data):
        raise Refused(f"its entry {entry.filename!r:.60} reaches beyond the file's end")
    return begin, entry.file_size


def _is_source(name: str) -> bool:
    return name.partition("/")[2].startswith("code/") and name.endswith(".py")


def _sources(archive: ZipFile, entries: list[ZipInfo]) -> dict[str, str]:
    """The source of a program by file; it is compressed, so its declared size may be wrong."""
    left, sources = _LARGEST_CODE, {}
    for entry in entries:
        with archive.open(entry) as file:
            text = file.read(left + 1)
        left -= len(text)
        if left < 0:
            raise Refused(f"the source in it has more than {_LARGEST_CODE} bytes")
        sources[entry.filename.partition("/")[2]] = text.decode()
    return sources


def _legacy(data: mmap.mmap, size: int) -> Saved:
    sizes: dict[str, int] = {}

    def on_storage(key: str, kind: str, count: int) -> None:
        dtype = DTYPES.get(kind.rpartition(".")[2].removesuffix("Storage"))
        if dtype is None or "Untyped" in kind:
            raise Refused(f"its storage {key!r:.40} is a {kind}, which this format lacks")
        sizes[key] = dtypes()[dtype].itemsize * count

    # A map, since a read of it returns no more than there is, and does not allocate what a broken length declares.
    file = cast(IO[bytes], data)
    if Walk(file, size).pickle() != _LEGACY_MAGIC:
        raise Refused("it is a pickle, but not one that torch.save wrote")
    begins, walk = [], Walk(file, size, on_storage, stubs=True)
    for _ in range(_LEGACY_PICKLES - 1):
        begins.append(data.tell())
        walk.pickle()
    begins.append(data.tell())
    system, keys = (unpickled(BytesIO(data[begins[place] : begins[place + 1]]), _nothing) for place in (1, 3))
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise Refused("its list of storages is invalid")
    places, at = {}, begins[4]
    for key in keys:
        count = int.from_bytes(data[at : at + 8], "little")
        each = sizes[key] // count if key in sizes and count else 0
        if key in sizes and (each * count != sizes[key] or at + 8 + sizes[key] > size):
            raise Refused(f"its storage {key!r:.40} should have {sizes[key]} bytes, but they are missing")
        places[key] = at + 8, sizes.get(key, 0)
        at += 8 + sizes.get(key, 0)
    is_swapped = isinstance(system, dict) and system.get("little_endian") is False
    return Saved(data, places, tuple(walk.names), data[begins[2] : begins[3]], is_swapped)


def _nothing(tensor: SavedTensor) -> None:
    return None


def _swapped(flat: np.ndarray) -> np.ndarray:
    """Swap the elements' byte order; a complex element is two numbers."""
    unit = flat.dtype.itemsize // (2 if flat.dtype.kind == "c" else 1)
    return flat.view(f"u{unit}").byteswap().view(flat.dtype)
