"""Paths of files in a generated package, which mirror the original's folders."""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

FilePlace = tuple[str, ...]
"""Folders and a file without its suffix: ``("layers", "attention")``."""

INIT = "__init__"


def places_of(files: Mapping[str, str], *, reserved: Collection[str] = ()) -> dict[str, FilePlace]:
    """Return the place of each original file's twin, relative to the deepest common folder.

    Args:
        files: the original's paths → the dotted names of their modules.
        reserved: names that other generated files use, without suffixes.
    """
    found = {path: _imported_as(path, module) for path, module in files.items()}
    while several := {place for place, count in Counter(found.values()).items() if count > 1}:
        found |= {path: _with_parent_folder(path, place) for path, place in found.items() if place in several}
    common = _common_depth([place[:-1] for place in found.values()])
    named = {path: tuple(map(_importable, place[common:])) for path, place in found.items()}
    folders = {folder for place in named.values() for folder in folders_of(place)}
    taken: set[FilePlace] = {(name,) for name in reserved}
    for path, place in named.items():
        named[path] = free_place(place, taken | folders)
        taken.add(named[path])
    return named


def free_place(wanted: FilePlace, taken: Collection[FilePlace]) -> FilePlace:
    """Return the wanted place, with a numeric suffix if it is taken."""
    place, number = wanted, 2
    while place in taken:
        place, number = (*wanted[:-1], f"{wanted[-1]}_{number}"), number + 1
    return place


def folders_of(place: FilePlace) -> list[FilePlace]:
    """Return a file's folders below the package, outermost first."""
    return [place[:depth] for depth in range(1, len(place))]


def dotted_place(place: FilePlace) -> str:
    """Return the dotted name of a place within the package: ``layers.attention``; ``""`` for the package itself."""
    return ".".join(place[:-1] if place[-1] == INIT else place)


def file_of(place: FilePlace) -> str:
    """Return the path of a place's file, relative to the package's folder."""
    return "/".join(place) + ".py"


def relative_module(there: FilePlace, here: FilePlace) -> str:
    """Return the relative module name by which one file imports another: ``.attention``, ``..norms``."""
    package, target = here[:-1], there[:-1] if there[-1] == INIT else there
    common = _common_depth([package, target])
    return "." * (len(package) - common + 1) + ".".join(target[common:])


def _imported_as(path: str, module: str) -> FilePlace:
    """Return the place by the module's dotted name; by the file's name if the two do not match."""
    file = Path(path).with_suffix("").parts
    parts = tuple(module.split("."))
    if file[-1] == INIT:
        parts = (*parts, INIT)
    if file[-len(parts) :] == parts:
        return parts
    return file[-2:] if file[-1] == INIT else file[-1:]


def _with_parent_folder(path: str, place: FilePlace) -> FilePlace:
    return Path(path).with_suffix("").parts[-len(place) - 1 :]


def _common_depth(places: Sequence[FilePlace]) -> int:
    """Return the length of the common prefix."""
    shortest = min(map(len, places), default=0)
    return next((depth for depth in range(shortest) if len({place[depth] for place in places}) > 1), shortest)


def _importable(name: str) -> str:
    """Turn a name into a valid identifier."""
    name = re.sub(r"\W", "_", name)
    name = f"_{name}" if name[0].isdigit() else name
    return f"{name}_" if keyword.iskeyword(name) else name
