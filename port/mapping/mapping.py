"""The mapping: where every tensor of one model lives on the other side, as data."""

from __future__ import annotations

from collections.abc import Mapping as Arrays
from dataclasses import dataclass

import numpy as np

from port.errors import WeightsMismatch
from port.mapping.moves import Move


@dataclass(frozen=True)
class Entry:
    """One tensor: its key on the source side, its path on the target side, and the moves from one to the other."""

    source: str
    target: str
    moves: tuple[Move, ...] = ()

    def __call__(self, array: np.ndarray) -> np.ndarray:
        """Carry this tensor over.

        Raises:
            WeightsMismatch: an array that a move cannot take; says whose it is.
        """
        try:
            for move in self.moves:
                array = move(array)
        except WeightsMismatch as error:
            raise WeightsMismatch(f"{self}: {error}") from None
        return array

    def inverse(self) -> Entry:
        """The entry the other way."""
        return Entry(self.target, self.source, tuple(move.inverse() for move in reversed(self.moves)))

    def __str__(self) -> str:
        moves = ", ".join(map(str, self.moves))
        return f"{self.source} → {self.target}" + (f"  [{moves}]" if moves else "")


@dataclass(frozen=True)
class Mapping:
    """The entries of a whole model."""

    entries: tuple[Entry, ...]

    def __call__(self, arrays: Arrays[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Carry named arrays over: source keys in, target paths out.

        Raises:
            WeightsMismatch: keys that the mapping expects and are not there, and keys there that it does not
                expect; all of them, sorted, in one message.
        """
        complaints = self.complaints(arrays)
        if complaints:
            raise WeightsMismatch("the weights do not fit the model:\n  " + "\n  ".join(complaints))
        return {entry.target: entry(arrays[entry.source]) for entry in self.entries}

    def complaints(self, arrays: Arrays[str, np.ndarray]) -> list[str]:
        """The keys that are missing and those that are not expected, a line each, sorted."""
        expected = {entry.source for entry in self.entries}
        return [
            *(f"missing: {key}" for key in sorted(expected - set(arrays))),
            *(f"unexpected: {key}" for key in sorted(set(arrays) - expected)),
        ]

    def inverse(self) -> Mapping:
        """The mapping the other way."""
        return Mapping(tuple(entry.inverse() for entry in self.entries))

    def __str__(self) -> str:
        return "\n".join(map(str, self.entries))
