"""Validate a check's options, and derive its limits."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any

from port.errors import UnknownChoice, UsageError
from port.judging import TENSORS, Limits
from port.parity.sides.inputs import Inputs
from port.parity.sides.structure import leaves

PRECISIONS = ("float64", "float32")


def limits_of(precision: str, rtol: float | None, atol: float) -> Limits:
    """Return the limits of a difference between two arrays.

    Args:
        precision: the precision in which both sides run.
        rtol: relative limit of outputs, and ten times that of gradients; None for the precision's limits.
        atol: absolute differences below this count as equal.

    Raises:
        UsageError: an unknown precision, or invalid limits.
    """
    if precision not in PRECISIONS:
        raise UnknownChoice("precision", precision, PRECISIONS)
    limits = TENSORS[precision]
    _check_limit("atol", atol)
    if rtol is not None:
        _check_limit("rtol", rtol)
        # A looser limit is meant for computations in less than float64. Their rounding also affects a gradient that
        # would be zero in exact arithmetic (the keys' bias in attention): its share is then float32's.
        share = max(limits.share, TENSORS["float32"].share) if rtol > limits.forward else limits.share
        limits = replace(limits, forward=rtol, gradient=10 * rtol, share=share)
    return replace(limits, absolute=atol)


def check_steps(steps: Any) -> None:
    """Raise UsageError unless ``steps`` is a number of forward passes."""
    if not isinstance(steps, Integral) or isinstance(steps, bool) or steps < 1:
        raise UsageError(f"steps is an integer of at least 1; got {steps!r}")


def check_inputs(inputs: Inputs) -> None:
    """Raise UsageError for an empty batch: any two models agree on it.

    An empty array, such as a cache without a token yet or an image without boxes, may stand beside others that are not.
    Whether the outputs then hold numbers is seen when they are there: `port.parity.sides.run.are_empty`.
    """
    arrays = leaves(inputs.args) | leaves(inputs.kwargs)
    shapes = {name: tuple(array.shape) for name, array in arrays.items()}
    if shapes and all(0 in shape for shape in shapes.values()):
        name, shape = next(iter(shapes.items()))
        raise UsageError(f"input {name} has shape {shape}: there is nothing to compare; pass a batch")


def _check_limit(name: str, value: Any) -> None:
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= float(value) < float("inf"):
        raise UsageError(f"{name} is a finite number of at least 0, such as 1e-6; got {value!r}")
