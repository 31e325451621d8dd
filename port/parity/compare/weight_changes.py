"""Explain how one side's values of a tensor differ: transposed, another tensor's, rounded, never loaded."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np

from port.parity.sides.calls import Arrays

_UNRELATED = 0.5
"""Below this correlation, the values are unrelated to the other side's, not a change of them."""


@dataclass(frozen=True)
class Became:
    """How a tensor changed.

    Attributes:
        kind: a stable name, such as "kernel-transposed".
        why: the same in a sentence; "" if nothing is known.
    """

    kind: str
    why: str


def became(array: np.ndarray, own: np.ndarray, others: Arrays) -> Became:
    """Explain Flax's values that are not torch's of that name.

    Args:
        array: torch's tensor, in Flax's layout.
        own: Flax's tensor.
        others: torch's other tensors by key, in Flax's layout.
    """
    for axes in permutations(range(array.ndim)):
        if axes != tuple(range(array.ndim)) and equal(array.transpose(axes), own):
            why = "it is transposed" if array.ndim == 2 else f"its axes are in another order, {axes}"
            return Became("kernel-transposed", why)
    for other, values in others.items():
        if values.size > 1 and np.ptp(_wide(values)) > 0 and equal(values, own):
            return Became("weights-of-another-layer", f"it holds the values of {other}")
    for dtype in _narrower(array):
        if equal(array.astype(dtype), own):
            return Became("weights-rounded", f"it was rounded to {np.dtype(dtype)}")
    if array.shape == own.shape and array.size > 1:
        if equal(np.sort(_wide(array), axis=None), np.sort(_wide(own), axis=None)):
            return Became("weights-reordered", "it has the same values in another order" + _along(array, own))
        with np.errstate(invalid="ignore"):
            apart = np.nan_to_num(np.abs(_wide(array).astype(np.float64) - _wide(own)), nan=np.inf)
        count = int(np.count_nonzero(apart))
        place = tuple(int(index) for index in np.unravel_index(int(np.argmax(apart)), apart.shape))
        why = f"{count} of its {array.size} values, most at {place}: torch {array[place]}, Flax {own[place]}"
        return Became(_changed(array, own), why)
    return Became("weights-changed", "")


def _changed(array: np.ndarray, own: np.ndarray) -> str:
    """Whether Flax's values are a change of torch's, or unrelated to them."""
    a, b = (_wide(values).astype(np.float64).ravel() for values in (array, own))
    if not (np.isfinite(a).all() and np.isfinite(b).all()) or np.ptp(a) == 0:
        return "weights-changed"
    if np.ptp(b) == 0:
        return "weights-not-loaded"
    return "weights-changed" if abs(np.corrcoef(a, b)[0, 1]) > _UNRELATED else "weights-not-loaded"


def _along(array: np.ndarray, own: np.ndarray) -> str:
    """The single axis along which the values are reordered; "" if it is not a single axis."""
    for axis in range(array.ndim):
        a, b = (np.moveaxis(_wide(values), axis, 0).reshape(values.shape[axis], -1) for values in (array, own))
        rows = [sorted(map(tuple, values.tolist())) for values in (a, b)]
        if array.ndim > 1 and rows[0] == rows[1]:
            return f" along axis {axis}"
    return ""


def equal(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have the same values, regardless of dtype."""
    return a.shape == b.shape and bool(np.array_equal(_wide(a), _wide(b), equal_nan=True))


def _wide(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "iub":
        return array
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _narrower(array: np.ndarray) -> list[np.dtype]:
    import ml_dtypes

    narrower = [np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)]
    return [dtype for dtype in narrower if dtype.itemsize < array.dtype.itemsize] if array.dtype.kind == "f" else []
