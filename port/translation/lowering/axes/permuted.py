"""Operators that reorder axes: the array stays unchanged unless layout assignment chose otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from port.translation.ir.graph import Value
from port.translation.ir.layout import Layout, permuted
from port.translation.lowering.paired import Paired

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def lower_permuted(stage: LoweringContext, paired: Paired) -> None:
    """Lower an operator whose pair has `Permuted` axes."""
    value, result = paired.variables["input"], paired.operation.results[0]
    permute(stage, value, order_of(paired.pair.jax, value.rank, paired.variables), result)


def permute(stage: LoweringContext, value: Value, dims: tuple[int, ...], result: Value) -> None:
    """Alias the permuted tensor to the same array, or transpose the array if the result has a chosen layout."""
    layout = permuted(stage.layout(value), dims)
    wanted = stage.chosen_layout(result)
    if wanted is None or wanted == layout or layout.folded is not None:
        stage.alias(result, value, layout, source=True, back=lambda wanted: _before(wanted, dims))
        return
    stage.permute(result, stage.ref(value), layout, wanted)


def _before(layout: Layout, dims: tuple[int, ...]) -> Layout | None:
    """Return the layout before a permutation that leads to the layout."""
    if layout.folded is not None:
        return None
    return Layout(tuple(dims[dim] % layout.rank for dim in layout.order))


def order_of(expression: str, rank: int, variables: dict[str, Any]) -> tuple[int, ...]:
    """Return the input axis of each result axis, by running the expression on a numpy array of distinct lengths."""
    distinct = np.broadcast_to(np.float32(0), tuple(range(2, rank + 2)))
    others = {name: variable for name, variable in variables.items() if name != "input"}
    made = eval(expression, {"jnp": np, **others, "input": distinct})
    return tuple(length - 2 for length in made.shape)
