"""A check's options: the limits that they set, and what is refused."""

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
    """How far apart two arrays may be.

    Args:
        precision: in which both sides run.
        rtol: relative limit of outputs, and ten times that of gradients; None for the precision's own.
        atol: below this absolute difference anything is equal.

    Raises:
        UsageError: a precision that there is none of, limits that are none.
    """
    if precision not in PRECISIONS:
        raise UnknownChoice("precision", precision, PRECISIONS)
    limits = TENSORS[precision]
    _check_limit("atol", atol)
    if rtol is not None:
        _check_limit("rtol", rtol)
        # A looser limit is given for what is computed in less than float64, whose rounding a gradient that is zero but
        # for it (the keys' bias in attention) has too: its share is then float32's.
        share = max(limits.share, TENSORS["float32"].share) if rtol > limits.forward else limits.share
        limits = replace(limits, forward=rtol, gradient=10 * rtol, share=share)
    return replace(limits, absolute=atol)


def check_steps(steps: Any) -> None:
    """Raise UsageError for what is no number of forward passes."""
    if not isinstance(steps, Integral) or isinstance(steps, bool) or steps < 1:
        raise UsageError(f"steps is a whole number from 1; got {steps!r}")


def check_inputs(inputs: Inputs) -> None:
    """Raise UsageError for an empty batch, with which anything agrees."""
    for name, array in leaves(inputs.tree).items():
        if array.ndim and not array.shape[0]:
            raise UsageError(f"input {name} has shape {array.shape}: there is nothing in it to compare; give a batch")


def _check_limit(name: str, value: Any) -> None:
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= float(value) < float("inf"):
        raise UsageError(f"{name} is a finite number, 0 or larger, as 1e-6; got {value!r}")
