"""Numbers that differ between the layers of a stack."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from flax import nnx


class PerLayer(nnx.Variable[nnx.variablelib.A]):
    """A number that differs between the layers of a stack: an index, a window, a dropout rate. Not saved with weights.

    In the stack it has one element for each layer; under `nnx.scan` each layer reads its own. A comparison with the
    same result in all layers returns a bool, so that it works in a condition: ``if self.rate > 0:``.

    Args:
        value: an array with one element for each layer.
        numbers: the same as Python numbers.
    """

    numbers: tuple[float, ...]

    def __init__(self, value: Any, *, numbers: tuple[float, ...] = (), **metadata: Any) -> None:
        super().__init__(value, numbers=numbers, **metadata)

    def _compared(self, other: Any, function: Callable[[Any, Any], Any], traced: Callable[[Any, Any], Any]) -> Any:
        if type(other) in (int, float):
            found = {function(number, other) for number in self.numbers}
            if len(found) == 1:
                return found.pop()
        return traced(self.get_value(), other)

    def __eq__(self, other: Any) -> Any:
        return self._compared(other, operator.eq, jnp.equal)

    def __ne__(self, other: Any) -> Any:
        return self._compared(other, operator.ne, jnp.not_equal)

    def __lt__(self, other: Any) -> Any:
        return self._compared(other, operator.lt, jnp.less)

    def __le__(self, other: Any) -> Any:
        return self._compared(other, operator.le, jnp.less_equal)

    def __gt__(self, other: Any) -> Any:
        return self._compared(other, operator.gt, jnp.greater)

    def __ge__(self, other: Any) -> Any:
        return self._compared(other, operator.ge, jnp.greater_equal)

    __hash__ = nnx.Variable.__hash__
