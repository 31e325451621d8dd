"""Join files of a package that import each other, so that no import is circular."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from port.translation.codegen.packages.places import INIT, FilePlace, relative_module

Needs = Mapping[FilePlace, Iterable[FilePlace]]


def joined_places(homes: Sequence[FilePlace], uses: Sequence[Iterable[int]], root: FilePlace) -> list[FilePlace]:
    """Return each definition's file, with files that need each other joined.

    The joined file is that of the definition that comes first in the source, since the others need it.

    Args:
        homes: the intended file of each definition, in the order of the source.
        uses: for each definition, the numbers of the definitions that it reads.
        root: the file that the package imports first.
    """
    places, first = list(homes), root
    while True:
        needs = needed_places(places, uses)
        half = half_imported(needs, first)
        if half is None:
            return places
        kept = min(half, key=places.index)
        places = [kept if place in half else place for place in places]
        first = kept if first in half else first


def needed_places(places: Sequence[FilePlace], uses: Sequence[Iterable[int]]) -> dict[FilePlace, list[FilePlace]]:
    """Return, for each file, the files that it imports from, in the order in which imports are sorted."""
    needs: dict[FilePlace, set[FilePlace]] = {place: set() for place in places}
    for place, used in zip(places, uses, strict=True):
        needs[place] |= {places[number] for number in used} - {place}
    return {place: sorted(found, key=lambda there: _sorted_by(there, place)) for place, found in needs.items()}


def half_imported(needs: Needs, root: FilePlace) -> tuple[FilePlace, FilePlace] | None:
    """Find a circular import: the importing file and the partially imported one; None if there is none.

    Python imports a package's ``__init__`` before any file of the package, so a cycle can also go through ``__init__``.
    """
    begun: set[FilePlace] = set()
    done: set[FilePlace] = set()

    def bring(place: FilePlace) -> tuple[FilePlace, FilePlace] | None:
        above = [(*place[:depth], INIT) for depth in range(len(place)) if (*place[:depth], INIT) in needs]
        for package in above:
            if package not in begun and package != place and (found := bring(package)):
                return found
        if place in begun:
            return None
        begun.add(place)
        for needed in needs[place]:
            if needed in begun - done:
                return place, needed
            if found := bring(needed):
                return found
        done.add(place)
        return None

    return next((found for place in chain([root], needs) if (found := bring(place))), None)


def _sorted_by(there: FilePlace, here: FilePlace) -> tuple[int, str]:
    module = relative_module(there, here)
    name = module.lstrip(".")
    return len(name) - len(module), name.lower()
