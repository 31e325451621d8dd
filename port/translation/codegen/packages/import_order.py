"""Which files of a package have to be one, so that none is imported that is half imported itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from port.translation.codegen.packages.places import INIT, FilePlace, relative_module

Needs = Mapping[FilePlace, Iterable[FilePlace]]


def joined_places(homes: Sequence[FilePlace], uses: Sequence[Iterable[int]], root: FilePlace) -> list[FilePlace]:
    """The places of definitions, where files that need each other are one.

    Those become one file: that of the definition which stands first, and so is needed by the others.

    Args:
        homes: where each definition would stand, in the order of their source.
        uses: the numbers of the definitions that each reads.
        root: what the package imports first.
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
    """Every place → those that it imports from, in the order in which imports are sorted."""
    needs: dict[FilePlace, set[FilePlace]] = {place: set() for place in places}
    for place, used in zip(places, uses, strict=True):
        needs[place] |= {places[number] for number in used} - {place}
    return {place: sorted(found, key=lambda there: _sorted_by(there, place)) for place, found in needs.items()}


def half_imported(needs: Needs, root: FilePlace) -> tuple[FilePlace, FilePlace] | None:
    """A place that imports from one that is only half imported then, and that one; None where all can be imported.

    Python imports a package, ``__init__``, before any file of it: so a file in it may need what needs the package.
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
