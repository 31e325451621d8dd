"""A weight that torch computes from other parameters, taken as it is."""

from __future__ import annotations

from collections.abc import Iterator

from port.parity.diagnose.causes.operation import Explanation, TorchOperation, Way, instead

_MODULE = "parametrizations"
"""What torch calls the container of what computes a layer's weight."""


def is_of_a_weight(operation: TorchOperation) -> bool:
    """Whether an operation computes a weight, rather than what a layer gives."""
    return _MODULE in operation.layer.split(".")


def weight_norm(operation: TorchOperation) -> Iterator[Way]:
    """The direction of a weight, without its length."""
    if operation.name == "_weight_norm":
        why = "Flax takes the weight's direction as the weight, torch gives it its own length (weight_norm)"
        yield Way("weight-norm-missing", why, instead(lambda direction: direction))


def spectral_norm(operation: TorchOperation) -> Iterator[Way]:
    """A weight before it is divided by its largest singular value."""
    if operation.name == "div" and is_of_a_weight(operation):
        why = "Flax takes the weight as it is, torch divides it by its largest singular value (spectral_norm)"
        yield Way("spectral-norm-missing", why, instead(lambda weight: weight))


EXPLANATIONS: tuple[Explanation, ...] = (weight_norm, spectral_norm)
