"""A smaller batch, for a comparison that would not fit with the one that was given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from port.parity.sides.cost import Cost
from port.parity.sides.inputs import Inputs
from port.parity.sides.structure import leaves, rebuilt

_LEAST = 2
"""Of one sample BatchNorm in training refuses what has no other axes, and a wrong axis of size one hides."""


def batch_size(inputs: Inputs) -> int | None:
    """The length that all arrays have along their first axis; None where they share none.

    Args:
        inputs: of a model.
    """
    lengths = {array.shape[0] if array.ndim else None for array in leaves(inputs.tree).values()}
    return lengths.pop() if len(lengths) == 1 else None


def with_batch(inputs: Inputs, size: int) -> Inputs:
    """The first samples of the batch.

    Args:
        inputs: of a model; all arrays share the first axis.
        size: how many.
    """

    def first(name: str, array: Any) -> np.ndarray:
        return np.ascontiguousarray(array[:size])

    return Inputs(rebuilt(inputs.args, first), rebuilt(inputs.kwargs, first))


@dataclass(frozen=True)
class SmallerBatch:
    """Inputs with a smaller batch.

    Attributes:
        size: of the batch.
        inputs: its samples.
        cost: of a forward pass with them.
    """

    size: int
    inputs: Inputs
    cost: Cost


def largest_batch(
    inputs: Inputs, cost_of: Callable[[Inputs], Cost], is_enough: Callable[[Cost], bool]
) -> SmallerBatch | None:
    """The inputs with their batch halved until it is small enough; None if it never is.

    Args:
        inputs: of torch's model.
        cost_of: what a forward pass costs; nothing where the model does not take that batch.
        is_enough: whether a comparison of that cost fits.
    """
    size = batch_size(inputs)
    while size is not None and size // 2 >= _LEAST:
        size //= 2
        fewer = with_batch(inputs, size)
        cost = cost_of(fewer)
        if not cost.results:  # the model is written for its batch
            return None
        if is_enough(cost):
            return SmallerBatch(size, fewer, cost)
    return None
