"""Find how Flax's array derives from torch's where the two diverge: a multiple, another order, a missing term."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isclose, prod

import numpy as np

from port.parity.compare.distance import difference
from port.parity.diagnose.causes.cause import LAYER
from port.parity.sides.calls import Arrays, RecordedCall

_LEAST_VALUES = 8
"""With fewer values, a constant ratio or a common order may be a coincidence."""
_MOST_DROPPED = 0.95


@dataclass(frozen=True)
class Relation:
    """A relation between Flax's array and torch's.

    Attributes:
        kind: the cause's stable name.
        why: what Flax does, as a sentence.
        remedy: what to change.
        cites: ids of candidate notes, those of the layer's pair, if several notes name this kind.
        carried: torch's values, by Flax's paths, that make Flax's side agree; empty if values are not the cause.
    """

    kind: str
    why: str
    remedy: str
    cites: tuple[str, ...] = ()
    carried: Arrays = field(default_factory=dict, compare=False)


def relations(
    torch: np.ndarray, flax: np.ndarray, limit: float, *, calls: list[RecordedCall], weights: Arrays
) -> Iterator[Relation]:
    """Yield how Flax's array derives from torch's, the simplest relation first.

    Args:
        torch: torch's array.
        flax: Flax's array at the same place, in torch's layout.
        limit: the relative difference below which two arrays are equal.
        calls: torch's layer calls up to this place.
        weights: torch's weights, by key.
    """
    if torch.shape == flax.shape and torch.dtype.kind in "iu" and flax.dtype.kind in "iu":
        yield from _counted(torch, flax)
        return
    if torch.shape != flax.shape or torch.size < _LEAST_VALUES or not np.isfinite([*torch.flat, *flax.flat]).all():
        return
    torch, flax = torch.astype(np.float64), flax.astype(np.float64)
    if not flax.any():
        return  # zeros equal torch's array minus itself, so they match anything
    for found in (_multiple(torch, flax, limit), _dropped(torch, flax, limit)):
        if found is not None:
            yield found
            return
    yield from _left_out(torch, flax, limit, calls, weights)
    yield from _reordered(torch, flax, limit, calls)


def _counted(torch: np.ndarray, flax: np.ndarray) -> Iterator[Relation]:
    """Indices that all differ by the same number."""
    apart = flax.astype(np.int64) - torch
    if apart.size and apart.flat[0] and (apart == apart.flat[0]).all():
        why = f"Flax's indices are torch's {int(apart.flat[0]):+d}"
        yield Relation("position-offset", why, "Count from where torch does.")


def _multiple(torch: np.ndarray, flax: np.ndarray, limit: float) -> Relation | None:
    """A constant times torch's array."""
    ratio = float((torch * flax).sum() / (torch**2).sum()) if torch.any() else 0.0
    if ratio == 0 or isclose(ratio, 1, rel_tol=limit) or difference(flax, ratio * torch) > limit:
        return None
    said = f"Flax's values are torch's times {ratio:.6g}"
    for length in sorted(set(torch.shape)):
        for power, name in ((0.5, "√"), (-0.5, "1/√"), (1.0, ""), (-1.0, "1/")):
            if length > 1 and isclose(ratio, length**power, rel_tol=max(limit, 1e-12)):
                said += f", which is {name}{length}"
                break
    return Relation("scale", said, "Scale where torch does, and once.")


def _dropped(torch: np.ndarray, flax: np.ndarray, limit: float) -> Relation | None:
    """Zeros at random places, and a constant times the other values: dropout."""
    kept = flax != 0
    share = 1 - kept.mean()
    if not 0 < share < _MOST_DROPPED or not (torch[~kept] != 0).any():
        return None
    ratio = float((torch[kept] * flax[kept]).sum() / (torch[kept] ** 2).sum())
    # If as many values are unscaled, they are what a relu leaves.
    if ratio <= 1 + max(limit, 1e-12) or difference(flax[kept], ratio * torch[kept]) > limit:
        return None
    rate = 1 - 1 / ratio
    why = (
        f"dropout is left on in Flax: {share:.0%} of the values are zero, the others torch's divided by {1 - rate:.3g}"
    )
    return Relation("dropout-left-on", why, "Call Flax's model in evaluation: eval(), or deterministic=True.")


def _left_out(
    torch: np.ndarray, flax: np.ndarray, limit: float, calls: list[RecordedCall], weights: Arrays
) -> Iterator[Relation]:
    """A missing term, an extra term, or an unchanged earlier array."""
    known: dict[str, np.ndarray] = {}
    for key, array in weights.items():
        if array.ndim and array.size > 1:
            known[key] = array
    for call in calls:
        for place, array in enumerate(call.inputs.values()):
            known.setdefault(f"{call}'s input" + (f" {place}" if place else ""), array)
        for array in call.outputs.values():
            known[f"{call}'s output"] = array
    missing = torch - flax
    size = float(np.abs(missing).max())
    for name, array in known.items():
        fitting = _fitting(array, torch.shape)
        if fitting is None or not np.isfinite(fitting).all() or not fitting.any():
            continue
        if difference(torch, flax + fitting) <= limit < size:
            kind = "bias-missing" if name.endswith("bias") else "addition-missing"
            yield Relation(kind, f"Flax does not add {name}", "Add it, as torch does.")
            return
        if difference(torch, flax - fitting) <= limit < size:
            yield Relation("added-twice", f"Flax adds {name} once more than torch", "Add it once.")
            return
        if fitting.shape == flax.shape and array.shape == flax.shape and difference(array, flax) <= limit:
            why = f"Flax has {name} there: what torch does after it is missing"
            yield Relation("step-missing", why, "Do what torch does between the two.")
            return


def _fitting(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return an array broadcast for adding to a shape: along its last axes or its channels; longer tables are cut."""
    if array.dtype.kind not in "fiu":
        return None
    if array.ndim == 1 and len(shape) > 2 and array.shape[0] == shape[1] != shape[-1]:
        array = array.reshape(-1, *([1] * (len(shape) - 2)))
    if array.ndim > len(shape):
        return None
    ends = shape[len(shape) - array.ndim :]
    if any(a < b and a != 1 for a, b in zip(array.shape, ends, strict=True)):
        return None
    cut = array[tuple(slice(0, 1 if a == 1 else b) for a, b in zip(array.shape, ends, strict=True))]
    return np.broadcast_to(cut, shape).astype(np.float64)


def _reordered(torch: np.ndarray, flax: np.ndarray, limit: float, calls: list[RecordedCall]) -> Iterator[Relation]:
    """The same slices in another order along one axis."""
    for axis in range(torch.ndim - 1, 0, -1):
        theirs, ours = (np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1) for array in (torch, flax))
        order = _order(theirs, ours, limit)
        if order is None:
            continue
        for shape in _images(calls, len(order)):
            flat = np.arange(len(order)).reshape(shape)
            if np.array_equal(order, np.moveaxis(flat, 0, -1).ravel()):
                why = f"torch flattens {shape} with the channels first, Flax with the channels last"
                remedy = f'Pass fold={{"{LAYER}": {shape}}}, which reorders the inputs of the linear layer after it.'
                yield Relation("flatten-order", why, remedy)
                return
        first = ", ".join(str(place) for place in order[:8])
        why = f"Flax has torch's values in another order along axis {axis}: {first}{', …' if len(order) > 8 else ''}"
        shifted = len(set((order - np.arange(len(order))) % len(order))) == 1
        kind = "flipped" if np.array_equal(order, np.arange(len(order))[::-1]) else "shifted" if shifted else "order"
        yield Relation(f"axis-{kind}", why, f"Bring axis {axis} into torch's order.")
        return


def _order(torch: np.ndarray, flax: np.ndarray, limit: float) -> np.ndarray | None:
    """Return which of torch's rows each of Flax's is; None if the rows differ, or have the same order."""
    count = len(torch)
    if not 2 <= count <= 4096:
        return None
    # One number per row, from random weights, so that only equal rows share it.
    weights = np.random.default_rng(0).normal(size=torch.shape[1])
    keys, sought = torch @ weights, flax @ weights
    theirs, ours = np.argsort(keys), np.argsort(sought)
    order = np.empty(count, np.int64)
    order[ours] = theirs
    if np.array_equal(order, np.arange(count)) or difference(torch[order], flax) > limit:
        return None
    return order


def _images(calls: list[RecordedCall], count: int) -> Iterator[tuple[int, ...]]:
    """Yield the shapes, without the batch, of torch's layer outputs with so many values per sample."""
    for call in reversed(calls):
        for array in call.outputs.values():
            if array.ndim > 2 and prod(array.shape[1:]) == count:
                yield array.shape[1:]
