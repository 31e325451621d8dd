"""The mapping: where every tensor of one model goes in the other model, as data."""

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

    Call it with named arrays to convert them. It has an inverse, composes (``first.then(second)``), prints, and is
    saved and read as TOML (`port.mapping.save_mapping`, `port.mapping.read_mapping`).

    Attributes:
        entries: the entries, in the order of the source side.
        kept: Flax paths without an entry: they have no twin, and keep their values.

    Raises:
        WeightsMismatch: a source or a target occurs twice.
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
            raise WeightsMismatch(f"a mapping uses and produces every tensor once; twice: {', '.join(wrong)}")

    def __call__(self, arrays: Arrays[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Convert named arrays: source keys in, target paths out.

        Raises:
            WeightsMismatch: missing keys, unexpected keys, and shapes that do not fit; all of them, sorted, in one
                message.
        """
        self.check({key: array.shape for key, array in arrays.items()})
        return {
            target: array
            for entry in self.present(arrays)
            for target, array in zip(entry.targets, entry(gather(entry, arrays)), strict=True)
        }

    def check(self, shapes: Arrays[str, tuple[int, ...]]) -> None:
        """Check that tensors of these names and shapes are what the mapping expects.

        Raises:
            WeightsMismatch: everything that is missing, unexpected or mis-shaped, in one message.
        """
        wrong = complaints(self.entries, shapes)
        if wrong:
            raise WeightsMismatch("the weights do not fit the model:\n  " + "\n  ".join(wrong))

    def present(self, keys: Arrays[str, object]) -> Iterator[Entry]:
        """Return the entries whose sources are present; optional ones may be missing."""
        return (entry for entry in self.entries if any(source in keys for source in entry.sources))

    def inverse(self) -> Mapping:
        """Return the mapping for the opposite direction."""
        return Mapping(tuple(entry.inverse() for entry in self.entries))

    def then(self, following: Mapping) -> Mapping:
        """Compose this mapping with another, from this one's sources to the other's targets.

        Raises:
            WeightsMismatch: the other's sources are not this one's targets.
        """
        return Mapping(tuple(composed(self.entries, following.entries)))

    def __str__(self) -> str:
        """One line per entry; entries that repeat by an index share a line."""
        return "\n".join(
            f"{entry}  ({counts(each)})" if each else str(entry) for entry, each in patterns_of(self.entries)
        )


def patterns_of(entries: Sequence[Entry]) -> list[tuple[Entry, Arrays[str, Numbers]]]:
    """Roll up entries that repeat by an index into one with name patterns: ``layers.{i}.weight``.

    Returns:
        each entry with the numbers of its letters.
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
