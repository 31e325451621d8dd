"""Operators that reorder axes: the array stays as it is, unless its readers want its axes in another order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from port.translation.ir.graph import Value
from port.translation.ir.layout import Layout, permuted
from port.translation.lowering.paired import Paired

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def lower_permuted(stage: LoweringContext, paired: Paired) -> None:
    """Write an operator of `Permuted`."""
    value, result = paired.variables["input"], paired.operation.results[0]
    permute(stage, value, order_of(paired.pair.jax, value.rank, paired.variables), result)


def permute(stage: LoweringContext, value: Value, dims: tuple[int, ...], result: Value) -> None:
    """The same array beside the permuted tensor, or its transpose if the result was given a layout."""
    layout = permuted(stage.layout(value), dims)
    wanted = stage.given(result)
    if wanted is None or wanted == layout or layout.folded is not None:
        stage.alias(result, value, layout, source=True, back=lambda wanted: _before(wanted, dims))
        return
    stage.permute(result, stage.ref(value), layout, wanted)


def _before(layout: Layout, dims: tuple[int, ...]) -> Layout | None:
    """The layout of an array that has one as a permuted tensor."""
    if layout.folded is not None:
        return None
    return Layout(tuple(dims[dim] % layout.rank for dim in layout.order))


def order_of(expression: str, rank: int, variables: dict[str, Any]) -> tuple[int, ...]:
    """Which axis of its input each axis of what a permutation gives is: seen in the shapes of an array of numpy's."""
    told_apart = np.broadcast_to(np.float32(0), tuple(range(2, rank + 2)))
    given = {name: variable for name, variable in variables.items() if name != "input"}
    made = eval(expression, {"jnp": np, **given, "input": told_apart})
    return tuple(length - 2 for length in made.shape)
