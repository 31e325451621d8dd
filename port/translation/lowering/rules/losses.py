"""Losses of which torch itself tells a wrong shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from port.translation.ir.graph import Operation
from port.translation.lowering.rules.from_pair import from_pair

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def _by_classes(stage: LoweringContext, operation: Operation) -> None:
    """Of a batch whose length is free torch's fake kernel gives one number, also where nothing is reduced."""
    if operation.arguments["reduction"] == 0:
        shape = operation.arguments["self"].shape
        operation.results[0].shape = (*shape[:1], *shape[2:]) if len(shape) > 1 else ()
    from_pair(stage, operation)


RULES = {"aten.nll_loss_nd": _by_classes, "aten.cross_entropy_loss": _by_classes}
