"""How far two right trainers may be apart, at each step: the yardsticks of the verdict.

float64 is the proof: rounding stays near 1e-12 over thousands of steps, a real difference does not. In float32
training makes rounding large, so a run is measured against *controls*: the same PyTorch run with its initial weights
moved in their last places.

The float32 constants were chosen on seeds 0–19 of mlp and convnet with sgd, adam and adamw on digits, 500 steps, batch
64 (120 right runs, three controls each), and then counted on seeds 20–39 (120 more): no false alarm in either half. The
early ones were widened once more for the first steps of three right MNIST runs, which all lie under them now. How
far the controls are moved (`port.weights.torch.CONTROL_UNITS`) decides that. At these limits controls moved by 1 unit
in the last place called 11 of 28 right runs wrong, by 16 units 5 of 62, by 128 units 0 of 240: a loss jumps when a ReLU
near zero falls on its other side, and a control nearer to its original than JAX can be jumps later than JAX does.
"""

from __future__ import annotations

import math
from itertools import accumulate

PROOF_LIMIT = 1e-9
"""float64: the largest relative difference of a loss, at any step or evaluation."""

WEIGHTS_LIMIT = 1e-7
"""float64: the largest difference of a final parameter or running statistic, relative to its tensor's largest
magnitude, or absolute where that is below 1."""

EARLY_STEPS = 2
"""How many steps are judged by themselves, before training has made rounding large: the second sees one update."""

EARLY_LIMIT = 5e-5
"""float32: the largest relative difference within the early steps. Right runs were up to 6e-6 apart there on digits,
and 2.5e-5 on MNIST, where one ReLU decides over all the blank pixels of an image at once."""

LATER_FLOOR = 2e-4
"""float32: what a later step may differ by, however near the controls are. A ReLU close to zero falls on its other
side, at a moment of its own in each run, and the loss jumps by so much."""

CONTROL_FACTOR = 10.0
"""float32: how many times further astray than the furthest control so far a right run may be."""

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The spacing of each type's numbers at 1."""


def early_limit(precision: str) -> float:
    """The early limit of a precision: float32's, scaled by how much coarser it is; never so high that all is right."""
    return min(EARLY_LIMIT * _coarseness(precision), 0.1)


def later_floor(precision: str) -> float:
    """The later floor of a precision: float32's, scaled by how much coarser it is; never so high that all is right."""
    return min(LATER_FLOOR * _coarseness(precision), 0.5)


def _coarseness(precision: str) -> float:
    return EPSILON.get(precision, EPSILON["float32"]) / EPSILON["float32"]


def relative_differences(a: list[float], b: list[float]) -> list[float]:
    """|a − b| over the larger magnitude of the two, at each place.

    A loss is a difference of larger terms and is not known closer than a few units in their last place. So the
    divisor is never below 1e-6 of the largest loss up to there: for a loss that has fallen a million times, the
    float64 proof then asks for 1e-15 of the loss that the run began with, not for less than its rounding.
    A loss that is not finite is infinitely far from every other, itself included: a difference is never NaN.
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
    """What float32 may differ by at each place: a multiple of the furthest any control has strayed up to there.

    Where a control has left the finite numbers there is no limit: rounding alone led there.
    """
    furthest = accumulate((max(values) for values in zip(*controls, strict=True)), max)
    return [max(floor, CONTROL_FACTOR * value) for value in furthest]
