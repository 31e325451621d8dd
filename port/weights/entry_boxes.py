"""Reads a box of a mapping entry's target from the boxes of the file's tensors that it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from port.errors import WeightsMismatch
from port.mapping import Entry
from port.mapping.entry import gather
from port.moves import Box, Boxes, Shape, restriction_of
from port.moves.boxes import cut, size_of
from port.weights.box_files import copied
from port.weights.sources import Source


@dataclass
class EntryBoxes:
    """One entry's tensors, read in parts.

    If the file can only read whole tensors, each is read once and kept for all targets of the entry.

    Attributes:
        entry: the mapping's entry.
        source: the source tensors.
        names: the name that each source is read under: tied ones share one.
        shapes: the sources' shapes.
        nbytes_read: bytes read so far.
    """

    entry: Entry
    source: Source
    names: Mapping[str, str]
    shapes: Mapping[str, Shape]
    nbytes_read: int = 0
    _whole: dict[str, np.ndarray] = field(default_factory=dict)

    def target(self, place: int, box: Box) -> np.ndarray:
        """Return a box of one of the entry's targets.

        Raises:
            WeightsMismatch: a move cannot take the tensors; names them.
        """
        wanted = tuple(box if number == place else None for number in range(len(self.entry.targets)))
        try:
            part = restriction_of(self.entry.moves, gather(self.entry, self.shapes), wanted)
            (made,) = part.make(self._read(part.needs))
        except WeightsMismatch as error:
            raise WeightsMismatch(f"{self.entry}: {error}") from None
        return made

    def _read(self, needs: Boxes) -> tuple[np.ndarray, ...]:
        arrays: list[np.ndarray] = []
        read: dict[tuple[str, Box], np.ndarray] = {}
        for name, need in zip(gather(self.entry, self.names), needs, strict=True):
            if need is not None:
                if (name, need) not in read:
                    read[name, need] = self._box(name, need)
                arrays.append(read[name, need])
        return tuple(arrays)

    def _box(self, name: str, need: Box) -> np.ndarray:
        if self.source.reads_boxes:
            self.nbytes_read += size_of(need) * self.source.tensors[name].dtype.itemsize
            return self.source.box(name, need)
        if name not in self._whole:
            self.nbytes_read += self.source.tensors[name].nbytes
            self._whole[name] = self.source[name]
        # A copy: the whole may belong to the caller, and XLA's CPU backend uses memory as it is.
        return copied(cut(self._whole[name], need))
