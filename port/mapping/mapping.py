"""The mapping: where every tensor of one model lives on the other side, as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Arrays
from dataclasses import dataclass, replace

import numpy as np

from port.errors import WeightsMismatch
from port.mapping.accounting import complaints
from port.mapping.composition import composed
from port.mapping.entry import TORCH_ONLY, Entry, gather
from port.mapping.patterns import Numbers, PatternRow, counts, rolled


@dataclass(frozen=True)
class Mapping:
    """The entries of a whole model, in the order of the source side.

    Called with named arrays it carries them over; it has an inverse, composes (``first.then(second)``), prints, and
    is saved and read as TOML (`port.mapping.save_mapping`, `port.mapping.read_mapping`).

    Attributes:
        entries: as said.
        kept: Flax's paths that no entry gives: they have no twin, and keep the values that they have.

    Raises:
        WeightsMismatch: a source or a target that stands in it twice.
    """

    entries: tuple[Entry, ...]
    kept: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        counts = {
            "source": Counter(name for entry in self.entries for name in entry.sources),
            "target": Counter(name for entry in self.entries for name in entry.targets),
        }
        wrong = [f"{side} {name}" for side, names in counts.items() for name, count in names.items() if count > 1]
        if wrong:
            raise WeightsMismatch(f"a mapping takes every tensor once and gives it once; twice: {', '.join(wrong)}")

    def __call__(self, arrays: Arrays[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Carry named arrays over: source keys in, target paths out.

        Raises:
            WeightsMismatch: keys that the mapping expects and are not there, keys there that it does not expect, and
                shapes that do not fit; all of them, sorted, in one message.
        """
        self.check({key: array.shape for key, array in arrays.items()})
        return {
            target: array
            for entry in self.present(arrays)
            for target, array in zip(entry.targets, entry(gather(entry, arrays)), strict=True)
        }

    def check(self, shapes: Arrays[str, tuple[int, ...]]) -> None:
        """See that tensors of these names and shapes are what the mapping takes.

        Raises:
            WeightsMismatch: everything that is missing, unexpected or mis-shaped, in one message.
        """
        wrong = complaints(self.entries, shapes)
        if wrong:
            raise WeightsMismatch("the weights do not fit the model:\n  " + "\n  ".join(wrong))

    def present(self, keys: Arrays[str, object]) -> Iterator[Entry]:
        """The entries whose sources are there: optional ones may not be."""
        return (entry for entry in self.entries if any(source in keys for source in entry.sources))

    def inverse(self) -> Mapping:
        """The mapping the other way."""
        return Mapping(tuple(entry.inverse() for entry in self.entries))

    def then(self, following: Mapping) -> Mapping:
        """This mapping and then another, from this one's sources to the other's targets.

        Raises:
            WeightsMismatch: the other's sources are not this one's targets.
        """
        return Mapping(tuple(composed(self.entries, following.entries)))

    def __str__(self) -> str:
        """An entry a line; those that repeat by an index are one."""
        return "\n".join(
            f"{entry}  ({counts(each)})" if each else str(entry) for entry, each in patterns_of(self.entries)
        )


def patterns_of(entries: Sequence[Entry]) -> list[tuple[Entry, Arrays[str, Numbers]]]:
    """Entries, those that repeat by an index as one with patterns for names: ``layers.{i}.weight``.

    Returns:
        each with the numbers that its letters stand for.
    """
    rows = [
        PatternRow((*entry.sources, *entry.targets), (len(entry.sources), replace(entry, sources=(), targets=())))
        for entry in entries
    ]
    found = []
    for row in rolled(rows):
        count, entry = row.rest
        found.append((replace(entry, sources=row.names[:count], targets=row.names[count:]), row.each))
    return found


__all__ = ["TORCH_ONLY", "Entry", "Mapping", "gather"]
