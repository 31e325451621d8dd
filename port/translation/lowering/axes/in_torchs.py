"""Operators whose axes must be in torch's order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from port.translation.ir.graph import Value
from port.translation.ir.layout import torchs
from port.translation.lowering.paired import Paired, give, in_torchs

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def lower_in_torchs(stage: LoweringContext, paired: Paired) -> None:
    """Write an operator of whose axes its pair says nothing."""
    filled = {
        name: stage.ref(variable)
        if isinstance(variable, Value) and _only_its_dtype(paired.pair.jax, name)
        else in_torchs(stage, variable)
        for name, variable in paired.variables.items()
    }
    give(stage, paired, filled, [torchs(result.rank) for result in paired.operation.results])


def _only_its_dtype(template: str, name: str) -> bool:
    """Whether an expression asks an array for nothing but its dtype, which it has in any order."""
    return re.search(rf"\b{name}\b(?!\.dtype\b)", template) is None
