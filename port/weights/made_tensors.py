"""Tensors of a file, some of which are computed from several when needed; a part of one from parts of these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from port.mapping import Entry
from port.mapping.entry import gather
from port.moves import Box
from port.weights.entry_boxes import EntryBoxes
from port.weights.sources import Source
from port.weights.tensors import TensorInfo


def made(pool: Source, entries: Mapping[str, Entry], names: Iterable[str]) -> Source:
    """Select tensors: those with an entry are computed by it, the others come from the pool.

    Args:
        pool: all tensors that they are made from.
        entries: a name → the entry that computes only this tensor.
        names: the names of the result, in order.
    """
    own, shapes = {name: name for name in pool}, pool.shapes

    def read(name: str) -> np.ndarray:
        if name not in entries:
            return pool[name]
        return entries[name](gather(entries[name], pool))[0]

    def read_box(name: str, box: Box) -> np.ndarray:
        if name not in entries:
            return pool.box(name, box)
        return EntryBoxes(entries[name], pool, own, shapes).target(0, box)

    infos = {name: _info(entries[name], pool) if name in entries else pool.tensors[name] for name in names}
    return Source(
        infos,
        read,
        # Of two names of one tensor, only one may be computed anew.
        aliases={
            name: first
            for name, first in pool.aliases.items()
            if {name, first} <= infos.keys() and entries.keys().isdisjoint((name, first))
        },
        left_out=pool.left_out,
        origin=pool.origin,
        read_box=read_box if pool.reads_boxes else None,
    )


def _info(entry: Entry, pool: Source) -> TensorInfo:
    infos = gather(entry, pool.tensors)
    shapes = tuple(info.shape for info in infos)
    (dtype,) = entry.dtypes(shapes, tuple(info.dtype for info in infos))
    return TensorInfo(entry.target_shapes(shapes)[0], dtype)
