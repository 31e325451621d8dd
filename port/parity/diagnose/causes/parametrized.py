"""A weight that torch computes from other parameters, used unprocessed."""

from __future__ import annotations

from collections.abc import Iterator

from port.parity.diagnose.causes.operation import Explanation, TorchOperation, Way, instead

_MODULE = "parametrizations"
"""torch's name for the container of a parametrization."""


def is_of_a_weight(operation: TorchOperation) -> bool:
    """Whether an operation computes a weight, rather than a layer's result."""
    return _MODULE in operation.layer.split(".")


def weight_norm(operation: TorchOperation) -> Iterator[Way]:
    """A weight's direction without its magnitude."""
    if operation.name == "_weight_norm":
        why = "Flax takes the weight's direction as the weight, torch gives it its own length (weight_norm)"
        yield Way("weight-norm-missing", why, instead(lambda direction: direction))


def spectral_norm(operation: TorchOperation) -> Iterator[Way]:
    """A weight that is not divided by its largest singular value."""
    if operation.name == "div" and is_of_a_weight(operation):
        why = "Flax takes the weight unchanged, torch divides it by its largest singular value (spectral_norm)"
        yield Way("spectral-norm-missing", why, instead(lambda weight: weight))


EXPLANATIONS: tuple[Explanation, ...] = (weight_norm, spectral_norm)
