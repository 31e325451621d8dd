"""Elementwise operators: operands are brought to a common layout, which the results have too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from port.translation.lowering.broadcast import together
from port.translation.lowering.paired import Paired, give, in_own_layouts

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def lower_each(stage: LoweringContext, paired: Paired) -> None:
    """Lower an operator whose pair has `Each` axes; it has at least one operand."""
    operands = paired.operands
    layout, expressions, leader = together(stage, operands)
    fitting = dict(zip(operands, expressions, strict=True))
    filled = {name: in_own_layouts(stage, variable, fitting) for name, variable in paired.variables.items()}
    follows = leader if layout == stage.layout(leader) else None
    give(stage, paired, filled, [layout] * len(paired.operation.results), follows=follows)
