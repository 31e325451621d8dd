"""Operators along axes that they keep, such as softmax: axis arguments are renumbered for the array's layout."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from port.pairs.ops.axes import Along
from port.translation.ir.graph import each_value
from port.translation.ir.layout import Layout, torchs, without
from port.translation.lowering.broadcast import together
from port.translation.lowering.paired import Paired, give, in_own_layouts

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def lower_along(stage: LoweringContext, paired: Paired, axes: Along) -> None:
    """Lower an operator whose pair has `Along` axes."""
    results = paired.operation.results
    shorter = [value for name in axes.without for value in each_value(paired.variables[name])]
    alike = [value for value in paired.operands if value not in shorter and (value.rank or len(paired.operands) == 1)]
    dims = {name: paired.variables.get(name) for name in axes.variables}
    named = {dim % alike[0].rank for dim in _numbers(dims.values())} if alike[0].rank else set()
    if axes.cuts and len(results) == 1:
        stage.alias(results[0], alike[0], stage.layout(alike[0]))
        return
    layout, expressions, leader = together(stage, alike)
    if None in dims.values() or any(value.rank != layout.rank for value in alike):
        layout, expressions = torchs(layout.rank), [stage.need(value) for value in alike]
    if layout.folded is not None and (layout.folded.axis in named or not named):
        layout = replace(layout, folded=None)
        expressions = [stage.need(value, layout) for value in alike]
    fitting = dict(zip(alike, expressions, strict=True))
    fitting |= {value: stage.need(value, without(layout, named)) for value in shorter if value.rank}
    filled = {name: in_own_layouts(stage, variable, fitting) for name, variable in paired.variables.items()}
    filled |= {name: renumbered(dim, layout) for name, dim in dims.items() if dim is not None}
    follows = leader if layout == stage.layout(leader) else None
    layouts = [layout if result.rank == layout.rank else torchs(result.rank) for result in results]
    give(stage, paired, filled, layouts, follows=follows)


def renumbered(dim: Any, layout: Layout) -> Any:
    """Translate torch's axis numbers to the array's, in the order of the argument."""
    if isinstance(dim, tuple | list):
        return tuple(renumbered(each, layout) for each in dim)
    return from_end(layout.axis(dim), layout.rank) if layout.rank else dim


def from_end(axis: int, rank: int) -> int:
    """Write the last axis as −1, the usual index of channels; count others from the front."""
    return -1 if rank > 1 and axis == rank - 1 else axis


def _numbers(dims: Any) -> list[int]:
    return [
        number
        for dim in dims
        for number in (dim if isinstance(dim, tuple | list) else (dim,))
        if isinstance(number, int)
    ]
