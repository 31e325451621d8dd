"""Strict accounting: which tensors are missing, unexpected, or have the wrong shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from port.errors import WeightsMismatch
from port.mapping.entry import Entry, gather
from port.mapping.names import nearest
from port.moves import Shape
from port.visible import visible


def complaints(entries: Iterable[Entry], shapes: Mapping[str, Shape]) -> list[str]:
    """List tensors that are missing, unexpected or mis-shaped, by their names and shapes; one sorted line each.

    Args:
        entries: what is expected.
        shapes: what was found: name → shape.
    """
    entries = list(entries)
    expected = {source for entry in entries for source in entry.sources}
    missing = {source for entry in entries for source in _missing(entry, shapes)}
    unexpected = set(shapes) - expected
    lines = [
        *(f"missing: {key}{nearest(key, unexpected)}" for key in sorted(missing)),
        *(f"unexpected: {key}{nearest(key, missing)}" for key in sorted(unexpected)),
        *sorted(line for entry in entries for line in _misshapen(entry, shapes)),
    ]
    return [visible(line) for line in lines]


def _missing(entry: Entry, shapes: Mapping[str, Shape]) -> list[str]:
    absent = [source for source in entry.sources if source not in shapes]
    # Of a tied weight one name is enough; an optional entry may be missing as a whole.
    if entry.optional and len(absent) == len(entry.sources):
        return []
    spared = {name for names in entry.tied if any(name in shapes for name in names) for name in names}
    return [name for name in absent if name not in spared]


def _misshapen(entry: Entry, shapes: Mapping[str, Shape]) -> list[str]:
    if entry.shapes is not None:
        return [
            f"{source} has shape {shapes[source]}, expected {needed}"
            for source, needed in zip(entry.sources, entry.shapes, strict=True)
            if source in shapes and shapes[source] != needed
        ]
    try:
        entry.target_shapes(gather(entry, shapes))
    except KeyError:
        return []  # missing tensors have no shape
    except WeightsMismatch as error:
        return [str(error)]
    return []
