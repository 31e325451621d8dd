"""Parses a safetensors header, as strictly as the format's own library, or more strictly.

Stricter on purpose (the library reads these, and no writer that we know of makes them): a name or a field that occurs
twice, of which the library uses the last; a tensor described by a list, or its dtype by an object, which its
deserializer accepts; shapes that no numpy array can have; types of less than a byte (F4, F6), which numpy lacks.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from port.errors import BrokenWeights
from port.weights.tensors import TensorInfo

METADATA = "__metadata__"
LARGEST_HEADER = 100_000_000
"""Bytes; the library's own limit."""

_DEEPEST = 125  # nesting inside an unknown field: the library's limit is 127 in all
_LARGEST_INTEGER = 2**64 - 1
_LARGEST_ARRAY = 2**63 - 1


@dataclass
class Header:
    """The tensors of a safetensors file: shape and dtype, and each one's first byte in the file."""

    metadata: dict[str, str]
    tensors: dict[str, TensorInfo]
    begins: dict[str, int] = field(repr=False)


def parse_header(path: Path, encoded: bytes, size: int, dtypes: dict[str, np.dtype]) -> Header:
    """Parse and validate a header.

    Args:
        path: for error messages.
        encoded: the header's bytes, without the eight before it.
        size: the whole file's size, in bytes.
        dtypes: by the format's names.

    Raises:
        BrokenWeights: the header violates the format.
    """
    content = _parse_json(path, encoded)
    metadata = content.pop(METADATA, None)
    metadata = {} if metadata is None else metadata  # the library reads null as none
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise BrokenWeights(f"{path}: {METADATA} must map text to text")
    tensors: dict[str, TensorInfo] = {}
    places: dict[str, tuple[int, int]] = {}
    for name, entry in content.items():
        tensors[name], places[name] = _tensor(f"{path}: {name!r}", entry, dtypes)
    data_begins = 8 + len(encoded)
    _check_places(path, places, size - data_begins)
    return Header(metadata, tensors, {name: data_begins + begin for name, (begin, _) in places.items()})


def _parse_json(path: Path, encoded: bytes) -> dict[str, Any]:
    try:
        text = encoded.decode()
        content = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite, parse_int=_integer
        )
        if "\\u" in text:
            json.dumps(content, ensure_ascii=False).encode()  # half of a surrogate pair is no text
    except (ValueError, RecursionError) as error:
        raise BrokenWeights(
            f"{path} is not a complete safetensors file: its header is not the JSON expected: {error}"
        ) from error
    if not isinstance(content, dict):
        raise BrokenWeights(f"{path} is not a safetensors file: its header must be an object, but is {content!r:.40}")
    return content


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"{twice!r} occurs twice")
    return content


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {digits:.20}… is too large")
    return number


def _integer(digits: str) -> int | float:
    """Parse a 64-bit integer; the format's library reads others as floats, which cannot be sizes."""
    number = int(digits) if len(digits) <= 20 else None
    if number is None or digits == "-0" or not -(2**63) <= number <= _LARGEST_INTEGER:
        return _finite(digits)
    return number


def _tensor(where: str, entry: Any, dtypes: dict[str, np.dtype]) -> tuple[TensorInfo, tuple[int, int]]:
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= set(entry):
        raise BrokenWeights(f"{where} must be an object with dtype, shape and data_offsets, but is {entry!r:.60}")
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in dtypes:
        raise BrokenWeights(f"{where} has the dtype {code!r:.40}; those that can be read are {', '.join(dtypes)}")
    if not _are_sizes(shape):
        raise BrokenWeights(
            f"{where} has the shape {shape!r:.60}, but a shape is a list of whole numbers, none negative"
        )
    if not _are_sizes(offsets) or len(offsets) != 2:
        raise BrokenWeights(f"{where} has the data_offsets {offsets!r:.60}, but they are two whole numbers: begin, end")
    if len(entry) > 3 and any(_depth(value) > _DEEPEST for value in entry.values()):
        raise BrokenWeights(f"{where} is nested more than {_DEEPEST} deep")
    dtype = dtypes[code]
    if len(shape) > 64 or math.prod(size for size in shape if size) * dtype.itemsize > _LARGEST_ARRAY:
        raise BrokenWeights(f"{where} has a shape that no array can have: {shape!r:.60}")
    info = TensorInfo(tuple(shape), dtype)
    begin, end = offsets
    if end - begin != info.nbytes:
        raise BrokenWeights(
            f"{where} is {code} of shape {info.shape}, which is {info.nbytes} bytes, and its data_offsets "
            f"{begin} to {end} are {end - begin}"
        )
    return info, (begin, end)


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(size) is int and size >= 0 for size in value)


def _depth(value: Any) -> int:
    """How deep lists and objects are nested; not by recursion, whose limit the file could reach."""
    depth, level = 0, [value]
    while inside := [one for one in level if isinstance(one, dict | list)]:
        level = [each for one in inside for each in (one.values() if isinstance(one, dict) else one)]
        depth += 1
    return depth


def _check_places(path: Path, places: dict[str, tuple[int, int]], data: int) -> None:
    """Check that each tensor begins where the one before it ends, the first at 0, and the last ends with the file."""
    reached, before = 0, ""
    for name, (begin, end) in sorted(places.items(), key=lambda item: item[1]):
        if begin > reached:
            raise BrokenWeights(f"{path}: {name!r} begins at {begin}, but bytes {reached} to {begin} are no tensor's")
        if begin < reached:
            raise BrokenWeights(f"{path}: {name!r} begins at {begin}, inside {before!r}, which ends at {reached}")
        reached, before = end, name
    if reached != data:
        what = "A download may have been cut short" if reached > data else "Something has been added to it"
        raise BrokenWeights(
            f"{path}: the tensors need {reached} bytes after the header, but the file has {data}. {what}"
        )
