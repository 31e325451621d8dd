"""A recorded call of one layer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from port.parity.sides.structure import leaves

Arrays = dict[str, np.ndarray]


@dataclass
class RecordedCall:
    """One call of one layer, in the layout of its side.

    Attributes:
        path: the layer's path in its model.
        number: which call of this layer it is, from 0.
        args: positional arguments, as objects of the side's framework.
        kwargs: keyword arguments.
        output: the call's result.
        cotangents: the gradient that arrived at each floating output, by the output's name.
        layer: the layer, if the side needs it to run it alone.
    """

    path: str
    number: int
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any = None
    cotangents: Arrays = field(default_factory=dict)
    layer: Any = None

    @property
    def key(self) -> str:
        """The call's name, which identifies its cotangents."""
        return f"{self.path}#{self.number}"

    @property
    def inputs(self) -> Arrays:
        """The arrays among the arguments, by name, as numpy arrays."""
        return numpy_leaves((*self.args, self.kwargs))

    @property
    def outputs(self) -> Arrays:
        """The arrays among the outputs, by name, as numpy arrays."""
        return numpy_leaves(self.output)

    def __str__(self) -> str:
        return self.path if self.number == 0 else f"{self.path} (call {self.number + 1})"


def numpy_leaves(value: Any) -> Arrays:
    """Return the arrays of a structure as numpy arrays, by name."""
    return {name: as_array(leaf) for name, leaf in leaves(value).items()}


def as_array(value: Any) -> np.ndarray:
    """Convert a tensor or an array to numpy."""
    if hasattr(value, "detach"):
        from port.weights.torch_arrays import as_numpy

        return as_numpy(value)
    return np.asarray(value)


def is_floating(array: Any) -> bool:
    """Whether an array has a floating dtype, half precision included."""
    return "float" in str(array.dtype)


def is_inexact(array: Any) -> bool:
    """Whether an array has a floating or complex dtype, and so may have a gradient."""
    return is_floating(array) or "complex" in str(array.dtype)


def largest(arrays: Arrays) -> float:
    """Return the largest finite magnitude of several arrays; 0 for none."""
    sizes = [np.abs(array[np.isfinite(array)]) for array in arrays.values()]
    return max((float(size.max()) for size in sizes if size.size), default=0.0)
