"""Take a model's parameter gradients in parts, if all of them together do not fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from port.mapping import Entry

MOST_PARTS = 16
"""More parts save little, since both sides' parameters are in memory anyway."""


@dataclass(frozen=True)
class Part:
    """Some of a model's parameters.

    Attributes:
        torch: their names in torch.
        flax: their paths in Flax.
    """

    torch: frozenset[str]
    flax: frozenset[str]


def parts_of(entries: Iterable[Entry], sizes: Mapping[str, int], count: int, *, prefix: str = "") -> tuple[Part, ...]:
    """Divide parameters into parts of similar size, with each mapping entry in one part.

    Args:
        entries: the entries of the mapping.
        sizes: torch's parameter sizes in bytes, by name. Parameters without an entry are included.
        count: the number of parts; fewer are made if there are fewer parameters.
        prefix: prefix of torch's names that the mapping's names lack.
    """
    groups = [
        (frozenset(f"{prefix}{name}" for name in entry.sources) & sizes.keys(), frozenset(entry.targets))
        for entry in entries
    ]
    mapped = frozenset().union(*(names for names, _ in groups))
    groups += [(frozenset((name,)), frozenset()) for name in sizes if name not in mapped]
    least = sum(sizes.values()) / count
    parts: list[Part] = []
    torch: frozenset[str] = frozenset()
    flax: frozenset[str] = frozenset()
    for names, paths in groups:
        torch, flax = torch | names, flax | paths
        if len(parts) < count - 1 and sum(sizes[name] for name in torch) >= least:
            parts.append(Part(torch, flax))
            torch = flax = frozenset()
    return (*parts, Part(torch, flax)) if torch or not parts else tuple(parts)


def least_parts(fits: Callable[[int], bool]) -> int:
    """Return the smallest number of parts, from 2 on, that fits; 0 if none does.

    Args:
        fits: whether a number of parts fits.
    """
    count = 2
    while count <= MOST_PARTS:
        if fits(count):
            return count
        count *= 2
    return 0


def said_of(parts: int) -> str:
    """Say that gradients were compared in parts."""
    return f"gradients were compared in {parts} parts"
