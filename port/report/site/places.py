"""Find where a pair is defined in the project's source, so that the cheat sheet can link to it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import port.pairs

PAIRS = Path(port.pairs.__file__).parent
LISTS = re.compile(r"__init__|examples")  # files that list pairs, or call what they describe
SHORTEST = len("Pad")  # shorter strings are prefixes of too many names


def source_page(file: str) -> str:
    """Return the page of a source, whose path is from ``port``."""
    return f"source/{file.removesuffix('.py')}.html"


@dataclass(frozen=True)
class Place:
    """A line of a file, whose path is from ``port/pairs``."""

    file: str
    line: int


def place_of(name: str, *where: str) -> Place:
    """Return the line that names a torch class or function, within the files or folders in ``where``.

    Some pairs build the name (``f"Conv{rank}d"``): then the line with the longest prefix of it. If no line matches,
    the first line of the first file.
    """
    files = [file for each in where for file in _files(PAIRS / each)]
    parts = name.split(".")
    names = [".".join(parts[begin:]) for begin in range(len(parts))]
    best, place = (False, 0), Place(_path(files[0]), 1)
    for file in files:
        for said, line in _strings(file).items():
            rank = said in names, len(said)
            if rank > best and any(each.startswith(said) for each in names):
                best, place = rank, Place(_path(file), line)
    return place


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in sorted(path.glob("*.py")) if not LISTS.search(file.stem)]


def _path(file: Path) -> str:
    return file.relative_to(PAIRS).as_posix()


@cache
def _strings(file: Path) -> dict[str, int]:
    """Return the strings of a source, without the prefix ``torch.nn.``, and the first line that contains each."""
    lines: dict[str, int] = {}
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            said = node.value.removeprefix("torch.nn.")
            if len(said) >= SHORTEST:
                lines[said] = min(node.lineno, lines.get(said, node.lineno))
    return lines
