"""How far apart the losses of two correct trainers may be at each step; applies `port.judging.limits`."""

from __future__ import annotations

import math
from itertools import accumulate

from port.judging.limits import CONTROL_FACTOR, EARLY_LIMIT, EPSILON, LATER_FLOOR, PROOF_LIMIT


def early_limit(precision: str) -> float:
    """The early limit of a precision: float32's, scaled by how much coarser it is; capped, so that it still judges."""
    return min(EARLY_LIMIT * _coarseness(precision), 0.1)


def later_floor(precision: str) -> float:
    """The later floor of a precision: float32's, scaled by how much coarser it is; capped, so that it still judges."""
    return min(LATER_FLOOR * _coarseness(precision), 0.5)


def _coarseness(precision: str) -> float:
    return EPSILON.get(precision, EPSILON["float32"]) / EPSILON["float32"]


def relative_differences(a: list[float], b: list[float]) -> list[float]:
    """|a − b| over the larger magnitude of the two, at each position.

    A loss is a difference of larger terms and is not known more precisely than a few units in their last place. So
    the divisor is never below 1e-6 of the largest loss so far: for a loss that has fallen by a factor of a million, the
    float64 proof then requires 1e-15 of the loss that the run began with, not less than its rounding. A loss that is
    not finite is infinitely far from every other, itself included: a difference is never NaN.
    """
    differences, largest = [], 0.0
    for x, y in zip(a, b, strict=True):
        if math.isfinite(x) and math.isfinite(y):
            largest = max(largest, abs(x), abs(y))
            differences.append(abs(x - y) / max(abs(x), abs(y), 1e-6 * largest) if x != y else 0.0)
        else:
            differences.append(math.inf)
    return differences


def control_limits(controls: list[list[float]], floor: float) -> list[float]:
    """The limits of float32 at each position: a multiple of the furthest that any control has strayed so far.

    Where a control is no longer finite there is no limit: rounding alone led there.
    """
    furthest = accumulate((max(values) for values in zip(*controls, strict=True)), max)
    return [max(floor, CONTROL_FACTOR * value) for value in furthest]


def proof_limits(values: list[float], controls: list[list[float]]) -> list[float]:
    """The limits of float64 at each position: the proof's limit, or NaN (not judged) where controls stray as far.

    Args:
        values: how far apart both sides are at each position.
        controls: how far each control has strayed there.
    """
    if not controls:
        return [PROOF_LIMIT] * len(values)
    strayed = control_limits(controls, PROOF_LIMIT)
    return [
        math.nan if PROOF_LIMIT < value <= limit else PROOF_LIMIT for value, limit in zip(values, strayed, strict=True)
    ]
