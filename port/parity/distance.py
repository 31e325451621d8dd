"""How far apart two arrays are, and how far they may be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Limits:
    """What a difference may be.

    Attributes:
        forward: of an output, a running statistic or a layer's output, relative.
        gradient: of a gradient, relative.
        floor: of a gradient, as a share of the model's largest: one that is zero but for rounding (a convolution's bias
            before BatchNorm) has no relative difference that means anything.
        absolute: below which anything is equal; what a person gives as ``atol``.
    """

    forward: float
    gradient: float
    floor: float
    absolute: float = 0.0

    @property
    def share(self) -> float:
        """The least magnitude of a gradient, as a share of the largest, that its limit is in relation to."""
        return self.floor / self.gradient if self.gradient else 0.0


LIMITS = {
    "float64": Limits(forward=1e-10, gradient=1e-9, floor=1e-12),
    # Every sum of a thousand terms is rounded in another order, 1e-7 · √1000 a layer; deep networks and BatchNorm's
    # backward pass enlarge that. Faults smaller than this are not seen: float64 is the proof.
    "float32": Limits(forward=1e-4, gradient=1e-3, floor=1e-5),
}


class Incomparable(float):
    """Infinity, and why a difference is that."""

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
    """Why a difference is infinite; "" of one that is not."""
    return apart.why if isinstance(apart, Incomparable) else ""


def difference(a: np.ndarray, b: np.ndarray, *, scale: float = 0.0) -> float:
    """The relative difference of two arrays.

    The larger of ‖a − b‖ / ‖a‖ and max|a − b| / max|a|; NaN and infinities at the same places are equal.

    Args:
        a: the reference, of any dtype.
        b: the other.
        scale: the least magnitude that a difference is set in relation to.

    Returns:
        infinity (`Incomparable`) where the shapes differ, only one of them is not finite somewhere, or torch's is zero.
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
            # Divided by the largest first, so that no square leaves the range of numbers.
            largest = max(float(np.abs(a).max()), scale)
            if largest == 0:
                return OF_ZERO
            norm = max(float(np.linalg.norm(a / largest)), scale / largest)
            return max(float(apart.max()) / largest, float(np.linalg.norm(apart / largest)) / norm)
    return 0.0


def largest(arrays: dict[str, np.ndarray]) -> float:
    """The largest finite magnitude of several arrays; 0 of none."""
    sizes = [np.abs(array[np.isfinite(array)]) for array in arrays.values()]
    return max((float(size.max()) for size in sizes if size.size), default=0.0)


def gap(a: np.ndarray, b: np.ndarray) -> float:
    """The largest |a − b|, not in relation to anything; infinity as for `difference`."""
    relative = difference(a, b, scale=1.0)
    if not np.isfinite(relative) or relative == 0:
        return relative
    with np.errstate(invalid="ignore"):
        apart = np.abs(a.astype(np.complex128) - b.astype(np.complex128))
    return float(apart[np.isfinite(apart)].max())
