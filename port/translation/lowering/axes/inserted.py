"""Operators whose results have one axis more than their operands, such as unsqueeze and stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from port.pairs.ops.axes import Inserted
from port.translation.ir.layout import with_new, without
from port.translation.lowering.axes.along import from_end
from port.translation.lowering.broadcast import together
from port.translation.lowering.paired import Paired, give, in_own_layouts

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def lower_inserted(stage: LoweringContext, paired: Paired, axes: Inserted) -> None:
    """Lower an operator whose pair has `Inserted` axes."""
    operands, result = paired.operands, paired.operation.results[0]
    layout, expressions, leader = together(stage, operands)
    dim = paired.variables[axes.variable] % result.rank
    after, place = with_new(layout, dim)
    fitting = dict(zip(operands, expressions, strict=True))
    filled = {name: in_own_layouts(stage, variable, fitting) for name, variable in paired.variables.items()}
    filled[axes.variable] = from_end(place, result.rank)
    follows = leader if layout == stage.layout(leader) else None
    give(stage, paired, filled, [after], follows=follows, back=lambda wanted: without(wanted, {dim}))
