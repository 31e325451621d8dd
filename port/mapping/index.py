"""Finds a name among the other side's names: exactly, or by its normal form."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain

from port.mapping.names import natural, normal_form


class Index:
    """Names of one side, indexed by their spellings.

    Args:
        styles: (spelling, name) pairs; a name may have several spellings.
    """

    def __init__(self, styles: Iterable[tuple[str, str]]) -> None:
        self._exact: dict[str, dict[str, None]] = defaultdict(dict)
        self._normal: dict[str, dict[str, None]] = defaultdict(dict)
        for style, name in styles:
            self._exact[style][name] = None
            self._normal[normal_form(style)][name] = None

    def find(self, wanted: str) -> list[str]:
        """Return the names with this spelling, or else those with the same normal form, in natural order."""
        found = self._exact.get(wanted) or self._normal.get(normal_form(wanted)) or {}
        return sorted(found, key=natural)

    def is_exact(self, wanted: str) -> bool:
        """Whether a name has exactly this spelling."""
        return wanted in self._exact

    def find_together(self, wanted: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Find several names that belong together, as often as they occur: [] unless each occurs equally often."""
        found = [self.find(name) for name in wanted]
        if len({len(names) for names in found}) != 1:
            return []
        together = list(zip(*found, strict=True))
        # A name that matches two of them is not an answer.
        return [] if len(set(chain(*together))) != sum(map(len, together)) else together
