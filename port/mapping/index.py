"""Finding a name among those of the other side: exactly, or by its normal form."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain

from port.mapping.names import natural, normal_form


class Index:
    """Names of one side under the ways of writing them.

    Args:
        styles: (a way of writing a name, the name); a name may have several.
    """

    def __init__(self, styles: Iterable[tuple[str, str]]) -> None:
        self._exact: dict[str, dict[str, None]] = defaultdict(dict)
        self._normal: dict[str, dict[str, None]] = defaultdict(dict)
        for style, name in styles:
            self._exact[style][name] = None
            self._normal[normal_form(style)][name] = None

    def find(self, wanted: str) -> list[str]:
        """The names that are written so: exactly, or where there is none, in the same normal form. In natural order."""
        found = self._exact.get(wanted) or self._normal.get(normal_form(wanted)) or {}
        return sorted(found, key=natural)

    def is_exact(self, wanted: str) -> bool:
        """Whether a name is written exactly so."""
        return wanted in self._exact

    def find_together(self, wanted: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Several names that belong together, as often as they are there: [] unless each is there equally often."""
        found = [self.find(name) for name in wanted]
        if len({len(names) for names in found}) != 1:
            return []
        together = list(zip(*found, strict=True))
        # One name that answers to two of them is no answer.
        return [] if len(set(chain(*together))) != sum(map(len, together)) else together
