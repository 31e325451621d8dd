"""Scans a msgpack file without reading its arrays.

In msgpack (github.com/msgpack/msgpack, spec.md) each value begins with a byte that encodes its kind, and its length if
the kind does not fix it. So a file of any size is walked from head to head, and of an array only the position is kept.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from mmap import mmap
from typing import Any

DEEPEST = 100
MOST_VALUES = 4_000_000
"""A value may take one byte in the file and a hundred in memory; a checkpoint has some ten values per array."""


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes that were not read: their position in the file, and the extension's code (None: plain bytes)."""

    begin: int
    length: int
    code: int | None


class MsgpackScan:
    """Walks over the values between two offsets of a file.

    Raises (from `value`):
        ValueError: it is not msgpack, incomplete, or larger or deeper than a checkpoint can be.
    """

    def __init__(self, data: mmap, begin: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = begin
        self.end = len(data) if end is None else end
        self.values = 0

    def value(self, depth: int = 0) -> Any:
        """Read the next value: dicts, lists, text, numbers, None; a `Blob` for bytes and extensions."""
        self.values += 1
        if depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} deep")
        if self.values > MOST_VALUES:
            raise ValueError(f"it has more than {MOST_VALUES} values")
        head = self._unpack(">B")
        if head < 0x80:
            return head
        if head < 0x90:
            return self._map(head & 0x0F, depth)
        if head < 0xA0:
            return self._list(head & 0x0F, depth)
        if head < 0xC0:
            return self._text(head & 0x1F)
        if head >= 0xE0:
            return head - 0x100
        if head in _CONSTANTS:
            return _CONSTANTS[head]
        if head in _NUMBERS:
            return self._unpack(_NUMBERS[head])
        if head in _EXTENSIONS:
            return self._blob(_EXTENSIONS[head], code=self._code())
        if head in _SIZED:
            size, read = _SIZED[head]
            return read(self, self._unpack(size), depth)
        raise ValueError(f"byte {self.at - 1} is {head:#x}, which does not begin a value")

    def _skip(self, length: int) -> int:
        begin, self.at = self.at, self.at + length
        if self.at > self.end:
            raise ValueError(f"it ends at byte {self.end}, inside a value that continues to {self.at}")
        return begin

    def _unpack(self, layout: str) -> Any:
        begin = self._skip(struct.calcsize(layout))
        return struct.unpack_from(layout, self.data, begin)[0]

    def _text(self, length: int) -> str:
        begin = self._skip(length)
        return self.data[begin : begin + length].decode()

    def _blob(self, length: int, code: int | None = None) -> Blob:
        return Blob(self._skip(length), length, code)

    def _code(self) -> int:
        code = self._unpack(">b")
        if code < 0:
            raise ValueError(f"byte {self.at - 1} begins an extension of the format's own (code {code}), not an array")
        return int(code)

    def _list(self, length: int, depth: int) -> list[Any]:
        return [self.value(depth + 1) for _ in range(length)]

    def _map(self, length: int, depth: int) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for _ in range(length):
            key = self.value(depth + 1)
            if not isinstance(key, str | int):
                raise ValueError(f"before byte {self.at} is the key {key!r:.40}, but keys are text or numbers")
            if str(key) in content:
                raise ValueError(f"the key {str(key)!r} occurs twice in one map")
            content[str(key)] = self.value(depth + 1)
        return content


_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = dict(zip([*range(0xCA, 0xD4)], [">f", ">d", ">B", ">H", ">I", ">Q", ">b", ">h", ">i", ">q"], strict=True))
_EXTENSIONS = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}  # those of a fixed length
_Reader = Callable[[MsgpackScan, int, int], Any]
_SIZED: dict[int, tuple[str, _Reader]] = {}  # the layout of the length, and what reads that much
for _first, _sizes, _read in (
    (0xC4, (">B", ">H", ">I"), lambda scan, length, depth: scan._blob(length)),
    (0xC7, (">B", ">H", ">I"), lambda scan, length, depth: scan._blob(length, code=scan._code())),
    (0xD9, (">B", ">H", ">I"), lambda scan, length, depth: scan._text(length)),
    (0xDC, (">H", ">I"), lambda scan, length, depth: scan._list(length, depth)),
    (0xDE, (">H", ">I"), lambda scan, length, depth: scan._map(length, depth)),
):
    _SIZED |= {_first + step: (size, _read) for step, size in enumerate(_sizes)}
