"""Positions, indices and slices that are off by one, or at the other end of an axis."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from port.parity.diagnose.causes.operation import (
    Arguments,
    Explanation,
    TorchOperation,
    Way,
    do,
    having,
    of_input,
    then,
)

_OFFSETS = (1, -1, 2, -2)
_REMEDY = "Count the positions from where torch does."


def embedding(operation: TorchOperation) -> Iterator[Way]:
    """An embedding's row for the next position."""
    if operation.name != "embedding" or not torch.is_tensor(operation.arguments.get("weight")):
        return
    rows = operation.arguments["weight"].shape[0]
    for offset in _OFFSETS:
        why = f"Flax's indices are {abs(offset)} {'more' if offset > 0 else 'less'} than torch's"
        # Flax's Embed takes a negative index from the end.
        run = of_input(partial(_moved, offset=offset, rows=rows))
        yield Way("position-offset", why, run, _REMEDY)
    longest = operation.arguments.get("max_norm")
    if longest is not None:
        why = f"torch rescales the rows that it takes to norm {longest:g} at most (max_norm), Flax does not"
        remedy = f"Take port.nn.Embedding(max_norm={longest})."
        yield Way("max-norm-missing", why, having(max_norm=None), remedy)


def counted(operation: TorchOperation) -> Iterator[Way]:
    """Positions that are counted from 1."""
    if operation.name == "arange":
        for offset in _OFFSETS:
            why = f"Flax counts positions from {offset:+d} where torch counts from 0"
            run = then(partial(_moved, offset=offset))
            yield Way("position-offset", why, run, remedy=_REMEDY)


def _moved(places: torch.Tensor, *, offset: int, rows: int | None = None) -> torch.Tensor:
    return places + offset if rows is None else (places + offset) % rows


def sliced(operation: TorchOperation) -> Iterator[Way]:
    """A slice of a table that begins one later, or an element from the other end."""
    if operation.name != "getitem" or not torch.is_tensor(operation.input):
        return
    table, index = list(operation.arguments.values())[:2]
    places = list(index) if isinstance(index, tuple) else [index]
    for axis, place in enumerate(places):
        # After an ellipsis, axes are counted from the end.
        length = (
            table.shape[axis - len(places) if any(each is Ellipsis for each in places[:axis]) else axis]
            if place is not Ellipsis
            else 0
        )
        if isinstance(place, slice):
            yield from _other_end(places, axis, place, length)
        elif isinstance(place, int) and not isinstance(place, bool):
            yield from _neighbours(places, axis, place, length)
        if isinstance(place, slice) and place.step in (None, 1) and isinstance(place.stop, int) and place.stop > 0:
            start = place.start or 0
            for offset in _OFFSETS:
                if start + offset >= 0 and place.stop + offset <= table.shape[axis]:
                    moved = slice(start + offset, place.stop + offset)
                    why = f"Flax takes places {moved.start} to {moved.stop} of the table, torch {start} to {place.stop}"
                    yield Way("position-offset", why, _at(places, axis, moved), remedy=_REMEDY)
        elif place in (0, -1) and isinstance(place, int) and not isinstance(place, bool):
            ends = ("first", "last") if place == 0 else ("last", "first")
            why = f"torch takes the {ends[0]} place along axis {axis}, Flax the {ends[1]}"
            run = _at(places, axis, -1 if place == 0 else 0)
            yield Way("other-end", why, run, remedy=f"Take the {ends[0]}.")
            why = f"torch takes the {ends[0]} place along axis {axis}, Flax the mean over all of them"
            run = _averaged(places, axis)
            yield Way("mean-for-one", why, run, remedy=f"Take the {ends[0]}.", rank=1)


def _other_end(places: list[Any], axis: int, place: slice, length: int) -> Iterator[Way]:
    """As many elements from the other end of an axis."""
    start, stop, step = place.indices(length)
    if step == 1 and 0 < stop - start < length and (start == 0) != (stop == length):
        count = stop - start
        ends, other = (
            (("first", "last"), slice(length - count, length)) if start == 0 else (("last", "first"), slice(count))
        )
        why = f"torch takes the {ends[0]} {count} places along axis {axis}, Flax the {ends[1]}"
        yield Way("other-end", why, _at(places, axis, other), f"Take the {ends[0]}.", rank=1)


def _neighbours(places: list[Any], axis: int, place: int, length: int) -> Iterator[Way]:
    """The index before or after: a target that is not shifted, or a token too far."""
    at = place % length
    for offset in (1, -1):
        if 0 <= at + offset < length:
            why = f"Flax takes place {at + offset} along axis {axis}, torch place {at}"
            yield Way("position-offset", why, _at(places, axis, at + offset), _REMEDY, rank=1)


def _at(places: list[Any], axis: int, place: Any) -> Any:
    def run(function: Any, arguments: Arguments) -> Any:
        return do(function, {**arguments, "1": (*places[:axis], place, *places[axis + 1 :])})

    return run


def _averaged(places: list[Any], axis: int) -> Any:
    def run(function: Any, arguments: Arguments) -> Any:
        whole = do(function, {**arguments, "1": (*places[:axis], slice(None), *places[axis + 1 :])})
        return whole.mean(axis)

    return run


EXPLANATIONS: tuple[Explanation, ...] = (embedding, counted, sliced)
