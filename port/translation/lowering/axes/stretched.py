"""Operators that broadcast: they repeat axes of length 1 and add leading ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from port.pairs.ops.axes import Stretched
from port.translation.ir.graph import Value, each_step, read_by
from port.translation.ir.layout import torchs
from port.translation.ir.origin import LengthOf
from port.translation.ir.origin_numbers import origin_of
from port.translation.lowering.named_lengths import named_or_read
from port.translation.lowering.paired import Paired, give
from port.translation.lowering.templates import SourceFragment

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def lower_stretched(stage: LoweringContext, paired: Paired, axes: Stretched) -> None:
    """Lower an operator whose pair has `Stretched` axes.

    Lengths that stay are read from the array, so that the source does not fix them.
    """
    value: Value = paired.variables["input"]
    sizes, result = paired.variables[axes.variable], paired.operation.results[0]
    if value.shape == result.shape:
        stage.alias(result, value, stage.layout(value))
        return
    lacking = result.rank - value.rank
    layout = torchs(result.rank) if lacking else stage.layout(value)
    expression = stage.need(value) if lacking else stage.ref(value)
    lengths: list[Any] = []
    others: dict[str, Value] = {}
    for place, dim in enumerate(layout.order):
        size = sizes[dim]
        own = value.shape[dim - lacking] if dim >= lacking and value.shape is not None else None
        # An attribute's name is clearer than the array's length.
        is_named = isinstance(size, int) and not isinstance(origin_of(size), LengthOf | None)
        stays = own is not None and own != 1 and not is_named
        if stays:
            shown, axis = _length_source(stage, value, dim - lacking)
            if shown is value:
                read = SourceFragment(f"input.shape[{place - lacking if place < result.rank - 1 else -1}]")
            else:
                others[name := f"shown_{place}"] = shown
                axis = stage.layout(shown).axis(axis)
                read = SourceFragment(f"{name}.shape[{axis if axis < shown.rank - 1 else -1}]")
            lengths.append(named_or_read(stage, size, read, f"{result.name}'s length {dim}"))
        else:
            lengths.append(stage.ref(size))
    paired = replace(paired, variables={**paired.variables, **others})
    read_off = {name: stage.ref(shown) for name, shown in others.items()}
    filled = {**paired.variables, **read_off, "input": expression, axes.variable: tuple(lengths)}
    give(stage, paired, filled, [layout], follows=None if lacking else value)


def _length_source(stage: LoweringContext, value: Value, dim: int) -> tuple[Value, int]:
    """Return the array from which to read a length, and its axis there: the array before any ``unsqueeze``.

    ``x[:, None].expand(…)`` then needs no variable for the unsqueezed array, unless something else reads it.
    """
    step = stage.producers.get(value)
    while step is not None and step.operator == "aten.unsqueeze.default" and _is_read_once(stage, value):
        before: Value = step.arguments["self"]
        at = step.arguments["dim"] % value.rank
        if dim == at or before not in stage.layouts:
            break
        value, dim = before, dim - (dim > at)
        step = stage.producers.get(value)
    return value, dim


def _is_read_once(stage: LoweringContext, value: Value) -> bool:
    return sum(value in read_by(step) for step in each_step(stage.graph.steps)) == 1
