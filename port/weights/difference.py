"""How far apart two sets of weights are."""

from __future__ import annotations

from collections.abc import Mapping as Arrays

import numpy as np


def largest_difference(a: Arrays[str, np.ndarray], b: Arrays[str, np.ndarray]) -> tuple[str, float]:
    """Find the tensor that differs most, and by how much.

    Returns:
        (name, difference): the largest |a − b| of a tensor over max(1, the tensor's largest magnitude); infinity
        for a tensor that only one side has, whose shapes differ, or that is not finite.
    """
    worst, furthest = "", -1.0
    for name in sorted(set(a) | set(b)):
        difference = _difference(a[name], b[name]) if name in a and name in b else np.inf
        if difference > furthest:
            worst, furthest = name, difference
    return worst, max(furthest, 0.0)


def _difference(a: np.ndarray, b: np.ndarray) -> float:
    if a.shape != b.shape:
        return np.inf
    if a.size == 0:
        return 0.0
    a, b = a.astype(np.float64), b.astype(np.float64)
    scale = max(1.0, np.abs(a).max(), np.abs(b).max())
    with np.errstate(invalid="ignore", over="ignore"):  # ∞ − ∞ is handled by the next line
        difference = float(np.abs(a - b).max() / scale)
    return difference if np.isfinite(difference) else np.inf
