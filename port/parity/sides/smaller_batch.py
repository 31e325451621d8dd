"""Choose a smaller batch for a comparison that does not fit with the user's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from port.parity.sides.cost import Cost
from port.parity.sides.inputs import Inputs
from port.parity.sides.structure import leaves, rebuilt

_LEAST = 2
"""With one sample, BatchNorm cannot train on inputs without other axes, and a wrong axis of size one is invisible."""


def batch_size(inputs: Inputs) -> int | None:
    """Return the common length of all arrays' first axes; None if there is none.

    Args:
        inputs: a model's inputs.
    """
    lengths = {array.shape[0] if array.ndim else None for array in leaves(inputs.tree).values()}
    return lengths.pop() if len(lengths) == 1 else None


def with_batch(inputs: Inputs, size: int) -> Inputs:
    """Return the first samples of the batch.

    Args:
        inputs: a model's inputs; all arrays share the first axis.
        size: the number of samples.
    """

    def first(name: str, array: Any) -> np.ndarray:
        return np.ascontiguousarray(array[:size])

    return Inputs(rebuilt(inputs.args, first), rebuilt(inputs.kwargs, first))


@dataclass(frozen=True)
class SmallerBatch:
    """Inputs with a smaller batch.

    Attributes:
        size: the batch size.
        inputs: the samples.
        cost: the cost of a forward pass with them.
    """

    size: int
    inputs: Inputs
    cost: Cost


def largest_batch(
    inputs: Inputs, cost_of: Callable[[Inputs], Cost], is_enough: Callable[[Cost], bool]
) -> SmallerBatch | None:
    """Halve the batch until a comparison fits; return None if it never does.

    Args:
        inputs: the torch model's inputs.
        cost_of: returns the cost of a forward pass; its results are zero if the model does not accept the batch.
        is_enough: whether a comparison of that cost fits.
    """
    size = batch_size(inputs)
    while size is not None and size // 2 >= _LEAST:
        size //= 2
        fewer = with_batch(inputs, size)
        cost = cost_of(fewer)
        if not cost.results:  # the model requires its batch size
            return None
        if is_enough(cost):
            return SmallerBatch(size, fewer, cost)
    return None
