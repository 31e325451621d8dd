"""Operators that work element by element: their operands are brought to one layout, which is that of the results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from port.translation.lowering.broadcast import together
from port.translation.lowering.paired import Paired, as_they_are, give

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def lower_each(stage: LoweringContext, paired: Paired) -> None:
    """Write an operator of `Each`, which has operands."""
    operands = paired.operands
    layout, expressions, leader = together(stage, operands)
    fitting = dict(zip(operands, expressions, strict=True))
    filled = {name: as_they_are(stage, variable, fitting) for name, variable in paired.variables.items()}
    follows = leader if layout == stage.layout(leader) else None
    give(stage, paired, filled, [layout] * len(paired.operation.results), follows=follows)
