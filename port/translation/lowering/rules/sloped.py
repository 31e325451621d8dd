"""Lower ``port_translation.sloped``: a value ``y`` whose gradient with respect to ``x`` is ``slope``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from port.translation.ir.expr import code
from port.translation.ir.graph import Operation
from port.translation.lowering.broadcast import together

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def _sloped(stage: LoweringContext, operation: Operation) -> None:
    layout, (y, x, slope), leader = together(stage, [operation.arguments[name] for name in ("y", "x", "slope")])
    follows = leader if layout == stage.layout(leader) else None
    stage.give(operation.results[0], code("F.sloped(y, x, slope)", y=y, x=x, slope=slope), layout, follows=follows)


RULES = {"port_translation.sloped": _sloped}
