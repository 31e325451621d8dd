"""A source file as lines of text: decoded strictly, whatever its line endings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from os.path import isdir
from pathlib import Path

from port.errors import UsageError

# What Python reads as a line ending. str.splitlines splits at more characters (form feeds …), and would count
# otherwise.
LINE_END = re.compile(r"\r\n|\r|\n")
NAMES = {"\n": r"\n", "\r\n": r"\r\n", "\r": r"\r"}


@dataclass(frozen=True)
class SourceText:
    """A file's lines, without line endings."""

    name: str
    """its name for the reader"""
    lines: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    """remarks for the reader"""


def source_of(text: str, name: str) -> SourceText:
    """Split a text into lines, without line endings; mixed line endings add a remark."""
    lines = LINE_END.split(text)
    if not lines[-1]:
        lines.pop()  # what follows the last line ending is not a line
    if not lines:
        return SourceText(name, (), ("is empty",))
    ends = sorted(set(LINE_END.findall(text)))
    if len(ends) < 2:
        return SourceText(name, tuple(lines))
    mixed = ", ".join(NAMES[end] for end in ends)
    return SourceText(name, tuple(lines), (f"has mixed line endings ({mixed}); they are not compared",))


def read_source(path: Path, name: str | None = None) -> SourceText:
    """Read a UTF-8 file, with or without a byte order mark; ``name`` replaces its path.

    Raises:
        UsageError: it does not exist, is not a file, is not readable, or is not UTF-8 text.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"there is no file {str(path)!r}") from None
    except (OSError, ValueError) as error:
        if isdir(path):
            raise UsageError(f"{str(path)!r} is a folder; give a file") from None
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{str(path)!r} cannot be read: {why}") from None
    if b"\0" in data:
        raise UsageError(f"{str(path)!r} is binary (it contains NUL bytes); pass a file of UTF-8 text")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = len(LINE_END.findall(data[: error.start].decode("utf-8", "replace"))) + 1
        raise UsageError(
            f"{str(path)!r} is not UTF-8: byte 0x{data[error.start]:02x} in line {line}; save it as UTF-8"
        ) from None
    return source_of(text, str(path) if name is None else name)
