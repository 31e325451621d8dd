"""Source locations in the original model, shortened for readers."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from port.translation.ir.lowered import Unsupported


def nearest(places: Iterable[str]) -> list[str]:
    """Return shortened locations, sorted by line; each file appears once, with all its lines."""
    lines: dict[str, set[int]] = {}
    for file, _, line in (place.rpartition(":") for place in places):
        if line.isdigit():
            lines.setdefault(nearer(file), set()).add(int(line))
    return [f"{file}:{', '.join(map(str, sorted(numbers)))}" for file, numbers in sorted(lines.items())]


def place_of(row: Unsupported) -> str:
    """Return the location of something left to write."""
    return "–" if row.place is None else f"{nearer(row.place.file)}:{row.place.line}"


def nearer(file: str) -> str:
    """Shorten a file's path: relative to the working directory, or to the folder that Python imports it from."""
    path = Path(file)
    for folder in (Path.cwd(), *sorted(map(Path, sys.path), key=lambda folder: -len(folder.parts))):
        if folder.is_absolute() and path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
    return file
