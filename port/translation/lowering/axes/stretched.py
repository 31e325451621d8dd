"""Operators that repeat axes of length 1, and put new ones in front."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from port.pairs.ops.axes import Stretched
from port.translation.ir.graph import Value
from port.translation.ir.layout import torchs
from port.translation.ir.origin import LengthOf
from port.translation.ir.origin_numbers import origin_of
from port.translation.lowering.paired import Paired, give
from port.translation.lowering.said_lengths import said_or_read
from port.translation.lowering.templates import SourceFragment

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def lower_stretched(stage: LoweringContext, paired: Paired, axes: Stretched) -> None:
    """Write an operator of `Stretched`: lengths that stay are read from the array, so that they are not fixed."""
    value: Value = paired.variables["input"]
    sizes, result = paired.variables[axes.variable], paired.operation.results[0]
    if value.shape == result.shape:
        stage.alias(result, value, stage.layout(value))
        return
    lacking = result.rank - value.rank
    layout = torchs(result.rank) if lacking else stage.layout(value)
    expression = stage.need(value) if lacking else stage.ref(value)
    lengths: list[Any] = []
    for place, dim in enumerate(layout.order):
        size = sizes[dim]
        own = value.shape[dim - lacking] if dim >= lacking and value.shape is not None else None
        # An attribute's name says more than the array's length.
        is_said = isinstance(size, int) and not isinstance(origin_of(size), LengthOf | None)
        stays = own is not None and own != 1 and not is_said
        axis = place - lacking if place < result.rank - 1 else -1
        if stays:
            read = SourceFragment(f"input.shape[{axis}]")
            lengths.append(said_or_read(stage, size, read, f"{result.name}'s length {dim}"))
        else:
            lengths.append(stage.ref(size))
    filled = {**paired.variables, "input": expression, axes.variable: tuple(lengths)}
    give(stage, paired, filled, [layout], follows=None if lacking else value)
