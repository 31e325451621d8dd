"""Find Flax's values at the divergence among other values of torch's run: another index, step, or slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from port.parity.compare.distance import difference
from port.parity.diagnose.causes.between import Relation
from port.parity.diagnose.causes.operation import TorchOperation
from port.parity.diagnose.causes.target import Target
from port.parity.sides.calls import numpy_leaves

_LEAST_VALUES = 4
"""With fewer distinct values, a match may be a coincidence."""
_LEAST_WIDTH, _MOST_VALUES, _NEAREST = 2, 1_000_000, 96
_MOST_SAID = 6


@dataclass(frozen=True)
class _Rows:
    """Where rows of features are in an array.

    Attributes:
        places: for each row, which of the array's rows it is.
        start: the feature of the array at which they begin.
    """

    places: np.ndarray
    start: int


def elsewhere(target: Target, operations: Sequence[TorchOperation]) -> Iterator[Relation]:
    """Yield which other values of torch Flax has there: the differing features equal rows of an earlier result.

    Examples: a recurrent layer's output at its last step where torch takes the last state; another token's features;
    batch and time exchanged.

    Args:
        target: the place.
        operations: the operations of torch's run up to that place, with their results.
    """
    for theirs, ours in target.arrays():
        if theirs.any() and not ours.any() and theirs.shape == ours.shape and theirs.ndim:
            yield Relation("zeros", "Flax has zeros there", "Take what torch takes.")
            return
        block = _differing(theirs, ours, target.limit)
        if block is None:
            continue
        rows, features = ours.reshape(-1, ours.shape[-1])[:, block], f"features {block.start} to {block.stop}"
        whole = block == slice(0, ours.shape[-1])
        own = _found(rows, theirs, target.limit) if whole else None
        if own is not None:
            why = f"Flax has torch's rows of {ours.shape[-1]} features in another order: {_places(own, ours, theirs)}"
            yield Relation("row-order", why, "Bring the axes before the features into torch's order.")
            return
        for operation in list(reversed(operations))[:_NEAREST]:
            for array in numpy_leaves(operation.result).values():
                found = _found(rows, array, target.limit)
                if found is not None:
                    stop = found.start + rows.shape[1]
                    part = "" if rows.shape[1] == array.shape[-1] else f", features {found.start} to {stop},"
                    why = f"Flax has {'' if whole else f'in {features} '}{_places(found, ours, array)}{part} of what"
                    why += f" {operation.name} gives{operation.said}; torch has other values there"
                    yield Relation("another-place", why, "Take the values that torch takes.")
                    return


def _differing(torch: np.ndarray, flax: np.ndarray, limit: float) -> slice | None:
    """Return the range of features that differ; None if there are too few."""
    if torch.shape != flax.shape or torch.ndim < 2 or flax.dtype.kind != "f" or not np.isfinite([torch, flax]).all():
        return None
    apart = np.abs(torch - flax).reshape(-1, flax.shape[-1]).max(0) > limit * np.abs(torch).max(initial=0.0)
    places = np.flatnonzero(apart)
    if not places.size:
        return None
    block = slice(int(places[0]), int(places[-1]) + 1)
    return block if block.stop - block.start >= _LEAST_WIDTH else None


def _found(rows: np.ndarray, array: np.ndarray, limit: float) -> _Rows | None:
    """Return where all rows are in an array, at the same features of it."""
    count, width = rows.shape
    if array.ndim < 2 or array.dtype.kind != "f" or not width <= array.shape[-1] or array.size > _MOST_VALUES:
        return None
    table = array.reshape(-1, array.shape[-1]).astype(np.float64)
    if not table.size or not np.isfinite(table).all() or len(np.unique(rows[rows != 0])) < _LEAST_VALUES:
        return None
    # One number per row, from random weights, so that only equal rows share it.
    weights = np.random.default_rng(0).normal(size=width)
    sought = rows.astype(np.float64) @ weights
    for start in sorted({*range(0, table.shape[-1] - width + 1, width), table.shape[-1] - width}):
        part = table[:, start : start + width]
        keys = part @ weights
        order = np.argsort(keys)
        right = np.clip(np.searchsorted(keys[order], sought), 1, max(len(keys) - 1, 1))
        near = np.stack([order[np.minimum(right, len(keys) - 1)], order[right - 1]])
        places = near[np.abs(keys[near] - sought).argmin(0), np.arange(count)]
        if difference(rows, part[places]) <= limit:
            return _Rows(places, start)
    return None


def _places(found: _Rows, ours: np.ndarray, array: np.ndarray) -> str:
    """Describe rows: indices along one axis if all other axes match Flax's array."""
    before = array.shape[:-1]
    indices = np.unravel_index(found.places, before)
    if array.ndim == 3 and ours.ndim == 2 and before[0] == len(ours) and (indices[0] == np.arange(len(ours))).all():
        return f"{_said(indices[1], 'place')} along axis 1"
    return _said(found.places, "row")


def _said(places: np.ndarray, word: str) -> str:
    if len(set(places.tolist())) == 1:
        return f"{word} {places[0]}"
    first = ", ".join(str(place) for place in places[:_MOST_SAID])
    return f"{word}s {first}{', …' if len(places) > _MOST_SAID else ''}"
