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
    """Lower an operator whose pair has no axis specification."""
    filled = {
        name: stage.ref(variable)
        if isinstance(variable, Value) and _reads_only_dtype(paired.pair.jax, name)
        else in_torchs(stage, variable)
        for name, variable in paired.variables.items()
    }
    give(stage, paired, filled, [torchs(result.rank) for result in paired.operation.results])


def _reads_only_dtype(template: str, name: str) -> bool:
    """Whether an expression reads only an array's dtype, which does not depend on the layout."""
    return re.search(rf"\b{name}\b(?!\.dtype\b)", template) is None
