"""The gradients of a model's parameters taken in parts, where all of them together do not fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from port.mapping import Entry

MOST_PARTS = 16
"""More parts than these save little: the parameters themselves are in memory, of both sides."""


@dataclass(frozen=True)
class Part:
    """Some of a model's parameters.

    Attributes:
        torch: their names on torch's side.
        flax: their paths on Flax's.
    """

    torch: frozenset[str]
    flax: frozenset[str]


def parts_of(entries: Iterable[Entry], sizes: Mapping[str, int], count: int, *, prefix: str = "") -> tuple[Part, ...]:
    """Divide parameters into parts of about the same size, each entry of the mapping in one of them.

    Args:
        entries: of the mapping.
        sizes: of torch's parameters in bytes, by name. One without an entry is in a part all the same.
        count: how many parts to make; there are fewer where there are fewer parameters.
        prefix: of torch's names, which the mapping does not have.
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
    """The smallest number of parts, from 2 on, that fits; 0 where none does.

    Args:
        fits: whether so many do.
    """
    count = 2
    while count <= MOST_PARTS:
        if fits(count):
            return count
        count *= 2
    return 0


def said_of(parts: int) -> str:
    """That gradients were compared in parts, in words."""
    return f"gradients were compared in {parts} parts"
