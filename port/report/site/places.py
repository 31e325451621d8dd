"""Where in the project's source a pair is written, so that the cheat sheet can lead there."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import port.pairs

PAIRS = Path(port.pairs.__file__).parent
LISTS = re.compile(r"__init__|examples")  # files that list the pairs, or call what they speak of
SHORTEST = len("Pad")  # what is shorter begins too many names


def source_page(file: str) -> str:
    """The page of a source, whose path is from ``port``."""
    return f"source/{file.removesuffix('.py')}.html"


@dataclass(frozen=True)
class Place:
    """A line of a file, whose path is from ``port/pairs``."""

    file: str
    line: int


def place_of(name: str, *where: str) -> Place:
    """The line that says a class or function of torch's, in the files or folders given.

    Some pairs put its name together (``f"Conv{rank}d"``): then the line that says the most of its beginning. If none
    does, the first line of the first file.
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
    """What the strings of a source say, and the first line that says it; without the package that all are in."""
    lines: dict[str, int] = {}
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            said = node.value.removeprefix("torch.nn.")
            if len(said) >= SHORTEST:
                lines[said] = min(node.lineno, lines.get(said, node.lineno))
    return lines
