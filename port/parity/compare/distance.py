"""Measure the difference between two arrays."""

from __future__ import annotations

import numpy as np


class Incomparable(float):
    """Infinity, with the reason why a difference is infinite."""

    why: str
    short: str

    def __new__(cls, why: str, short: str) -> Incomparable:
        made = super().__new__(cls, "inf")
        made.why, made.short = why, short
        return made

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return self.why, self.short


SHAPES = Incomparable("their shapes differ", "shape")
NOT_A_NUMBER = Incomparable("there is NaN on one side where the other has none", "NaN")
NOT_FINITE = Incomparable("there is infinity on one side where the other has none", "inf")
OF_ZERO = Incomparable("torch has zeros only", "of 0")


def why_of(apart: float) -> str:
    """Why a difference is infinite; "" if it is finite."""
    return apart.why if isinstance(apart, Incomparable) else ""


def difference(a: np.ndarray, b: np.ndarray, *, scale: float = 0.0) -> float:
    """The relative difference of two arrays.

    The larger of ‖a − b‖ / ‖a‖ and max|a − b| / max|a|; NaN and infinities at the same places are equal.

    Args:
        a: the reference, of any dtype.
        b: the other array.
        scale: the smallest magnitude by which a difference is divided.

    Returns:
        infinity (`Incomparable`) if the shapes differ, only one of them is not finite somewhere, or torch's is zero.
    """
    if a.shape != b.shape:
        return SHAPES
    if a.size == 0:
        return 0.0
    wide = np.complex128 if np.iscomplexobj(a) or np.iscomplexobj(b) else np.float64
    a, b = a.astype(wide).ravel(), b.astype(wide).ravel()
    if not np.array_equal(a, b, equal_nan=True):
        finite = np.isfinite(a) & np.isfinite(b)
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
            return NOT_FINITE if np.array_equal(np.isnan(a), np.isnan(b)) else NOT_A_NUMBER
        a, b = a[finite], b[finite]
        apart = np.abs(a - b)
        if apart.size and apart.max() > 0:
            # Divide by the largest first, so that no square overflows or underflows.
            largest = max(float(np.abs(a).max()), scale)
            if largest == 0:
                return OF_ZERO
            norm = max(float(np.linalg.norm(a / largest)), scale / largest)
            return max(float(apart.max()) / largest, float(np.linalg.norm(apart / largest)) / norm)
    return 0.0


def gap(a: np.ndarray, b: np.ndarray) -> float:
    """The largest absolute difference |a − b|; infinity as for `difference`."""
    relative = difference(a, b, scale=1.0)
    if not np.isfinite(relative) or relative == 0:
        return relative
    with np.errstate(invalid="ignore"):
        apart = np.abs(a.astype(np.complex128) - b.astype(np.complex128))
    return float(apart[np.isfinite(apart)].max())
