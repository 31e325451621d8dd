"""Folds a flatten into the linear layers after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any

from port.errors import UsageError, WeightsMismatch
from port.mapping.entry import Entry
from port.mapping.names import joined, nearest
from port.moves import Branch, EachBranch, Fold, Move
from port.moves.spec import fold_from


def folded(entries: list[Entry], fold: Mapping[str, tuple[int, ...]]) -> list[Entry]:
    """Fold a flatten into the inputs of linear layers.

    Args:
        entries: from torch's keys to Flax's paths.
        fold: path of a linear layer → the (channels, *spatial) features that were flattened before it.

    Raises:
        WeightsMismatch: layers that do not exist, or have another number of inputs; all in one message.
    """
    asked = {joined(path, "weight"): fold_from(tuple(shape)) for path, shape in fold.items()}
    keys = {source for entry in entries for source in entry.sources}
    wrong = [f"the model has no {key}{nearest(key, keys)}" for key in asked if key not in keys]
    result = []
    for entry in entries:
        moves = {source: asked[source] for source in entry.sources if source in asked}
        wrong += [line for source, move in moves.items() if (line := _unfit(entry, source, move))]
        # Before the pair's own moves: torch's layout is (out, in), the inputs are axis 1.
        result.append(replace(entry, moves=_with(entry, moves)) if moves else entry)
    if wrong:
        raise WeightsMismatch("the folds do not fit the model:\n  " + "\n  ".join(sorted(wrong)))
    return result


def folds(value: Any) -> dict[str, tuple[int, ...]]:
    """Parse the user's folds: path of a linear layer → (channels, *spatial).

    Raises:
        UsageError: the value has another form.
    """
    expected = "fold is a linear layer's path → (channels, height, width), as in {'classifier.0': (512, 7, 7)}"
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UsageError(f"{expected}; got {value!r}")
    for path, shape in value.items():
        is_shape = isinstance(shape, tuple | list) and len(shape) > 0 and all(map(_is_size, shape))
        if not isinstance(path, str) or not is_shape:
            raise UsageError(f"{expected}; got {path!r}: {shape!r}")
    return {path: tuple(map(int, shape)) for path, shape in value.items()}


def _is_size(size: Any) -> bool:
    return isinstance(size, Integral) and not isinstance(size, bool) and int(size) > 0


def _with(entry: Entry, moves: dict[str, Fold]) -> tuple[Move, ...]:
    if entry.is_tied:  # one weight under several names is folded once
        return (entry.moves[0], *dict.fromkeys(moves.values()), *entry.moves[1:])
    if len(entry.sources) == 1:
        return (*moves.values(), *entry.moves)
    each = (Branch(1, (moves[name],) if name in moves else (), 1) for name in entry.sources)
    return (EachBranch(tuple(each)), *entry.moves)


def _unfit(entry: Entry, source: str, move: Fold) -> str | None:
    if entry.shapes is None:
        return None
    try:
        move.shapes((entry.shapes[entry.sources.index(source)],))
    except WeightsMismatch as error:
        return f"{source}: {error}"
    return None
