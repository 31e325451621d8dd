"""Describe a divergence without a known cause: where in the array, and which code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from port.parity.compare.distance import difference
from port.parity.diagnose.causes.rerun import rerun
from port.parity.diagnose.causes.search import candidates
from port.parity.diagnose.causes.target import Target

_MOST_LINES, _MOST_PLACES = 8, 6


def seen_there(target: Target) -> list[str]:
    """Describe what differs at a place, and torch's code between the last values that agree and those that differ.

    Args:
        target: the place.
    """
    said = []
    for theirs, ours in target.arrays():
        if theirs.shape == ours.shape and theirs.dtype.kind == "f" and difference(theirs, ours) > target.limit:
            said.append(" ".join(_described(theirs, ours, target.limit)))
            break
    lines = _lines(target)
    if lines:
        more = f"; and {len(lines) - _MOST_LINES} lines more" if len(lines) > _MOST_LINES else ""
        said.append(f"torch's code there: {'; '.join(lines[:_MOST_LINES])}{more}")
    return said


def _described(torch: np.ndarray, flax: np.ndarray, limit: float) -> Iterator[str]:
    """Describe how much of an array differs, and whether only some indices along an axis do."""
    largest = float(np.abs(torch[np.isfinite(torch)]).max(initial=0.0)) or 1.0
    with np.errstate(invalid="ignore"):
        same = (np.abs(torch - flax) <= limit * largest) | (torch == flax) | (np.isnan(torch) & np.isnan(flax))
    apart = ~same
    yield f"{apart.sum()} of the {apart.size} values of what parts there differ, of shape {torch.shape} in torch."
    for axis in range(torch.ndim):
        others = tuple(place for place in range(torch.ndim) if place != axis)
        places = np.flatnonzero(apart.any(axis=others))
        if 0 < len(places) < torch.shape[axis]:
            shown = ", ".join(map(str, places[:_MOST_PLACES])) + (", …" if len(places) > _MOST_PLACES else "")
            yield f"Along axis {axis} those at {shown} alone do, {len(places)} of {torch.shape[axis]}."
    axes = tuple(range(torch.ndim))
    if np.isfinite(flax).all() and np.isfinite(torch).all() and apart.all() and torch.size > 1:
        sizes = [float(np.sqrt((array**2).mean(axis=axes))) for array in (torch, flax)]
        yield f"All do; their root mean square is {sizes[0]:.3g} in torch and {sizes[1]:.3g} in Flax."


def _lines(target: Target) -> Sequence[str]:
    """Return the lines of the model's own source whose operations may be at fault, in order."""
    until = None if target.torch is None else target.torch.key
    models, training = target.models, target.training
    ways = {number: way.run for number, way in target.ways.items()}
    try:
        run = rerun(models.torch, models.inputs, training=training, until=until, ways=ways, located=True)
    except Exception:
        return []
    return list(dict.fromkeys(operation.line for operation in candidates(target, run) if operation.line))
