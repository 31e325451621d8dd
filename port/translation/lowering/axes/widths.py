"""Operators with an argument that lists axes from the last one back, as padding does: reorder it for the layout."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from port.pairs.ops.axes import Widths
from port.translation.ir.graph import Value
from port.translation.ir.layout import Layout
from port.translation.lowering.paired import Paired, give, in_torchs

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def lower_widths(stage: LoweringContext, paired: Paired, axes: Widths) -> None:
    """Lower an operator whose pair has `Widths` axes."""
    value: Value = paired.variables["input"]
    widths = list(paired.variables[axes.variable])
    layout = stage.layout(value)
    if layout.folded is not None and layout.folded.axis >= layout.rank - len(widths) // 2:
        layout = replace(layout, folded=None)
    reordered = {**paired.variables, axes.variable: tuple(in_order(widths, layout))}
    filled = {name: in_torchs(stage, variable) for name, variable in reordered.items() if name != "input"}
    filled["input"] = stage.need(value, layout)
    follows = value if layout == stage.layout(value) else None
    give(stage, replace(paired, variables=reordered), filled, [layout], follows=follows)


def in_order(widths: list[Any], layout: Layout) -> list[Any]:
    """Reorder widths for a layout. As in torch, they are low and high of the last axis, the one before, and so on."""
    of_dim = {layout.rank - 1 - place: widths[2 * place : 2 * place + 2] for place in range(len(widths) // 2)}
    pairs = [of_dim.get(dim, [0, 0]) for dim in layout.order]
    while pairs and pairs[0] == [0, 0]:
        del pairs[0]
    return [width for pair in reversed(pairs) for width in pair]
