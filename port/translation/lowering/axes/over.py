"""Operators that reduce or select axes: the remaining axes keep their order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from port.pairs.ops.axes import Over
from port.translation.ir.layout import Layout, torchs, with_new, without
from port.translation.lowering.axes.along import renumbered
from port.translation.lowering.broadcast import together
from port.translation.lowering.context import Back
from port.translation.lowering.paired import Paired, give, in_own_layouts

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def lower_over(stage: LoweringContext, paired: Paired, axes: Over) -> None:
    """Lower an operator whose pair has `Over` axes."""
    operands, results = paired.operands, paired.operation.results
    layout, expressions, leader = together(stage, operands)
    dim = None if axes.variable is None else paired.variables.get(axes.variable)
    dims = () if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    gone = {each % layout.rank for each in dims} if layout.rank else set()
    if layout.folded is not None and dims and (layout.folded.axis in gone or axes.keepdim):
        layout = replace(layout, folded=None)
        expressions = [stage.need(value, layout) for value in operands]
    fitting = dict(zip(operands, expressions, strict=True))
    filled = {name: in_own_layouts(stage, variable, fitting) for name, variable in paired.variables.items()}
    stays = results[0].rank == layout.rank
    if axes.variable is not None:
        filled[axes.variable] = renumbered(dim, layout) if dims else None
    after = layout if stays else without(layout, gone) if dims else torchs(results[0].rank)
    follows = leader if dims and layout == stage.layout(leader) else None
    back = None if stays else _back(gone)
    give(stage, paired, filled, [after] * len(results), follows=follows, back=back)


def _back(gone: set[int]) -> Back:
    """Return a function from a layout of the result to the layout that the operand would need."""

    def back(wanted: Layout) -> Layout | None:
        if wanted.folded is not None:
            return None
        for dim in sorted(gone):
            wanted = with_new(wanted, dim)[0]
        return wanted

    return back
