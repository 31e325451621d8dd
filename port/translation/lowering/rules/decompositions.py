"""Eigenvectors: their signs are free, and what a model makes of them should not depend on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from port.errors import NoPair
from port.translation.ir.expr import code
from port.translation.ir.graph import Operation
from port.translation.ir.layout import torchs

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def _eigh(stage: LoweringContext, operation: Operation) -> None:
    """Values and vectors; no operator's pair speaks of them, as the proof has to say whether the signs matter."""
    if operation.arguments["UPLO"] != "L":
        raise NoPair('eigh of the upper half: JAX reads the lower one; give it the transpose, and UPLO="L"')
    made = code("jnp.linalg.eigh(A, symmetrize_input=False)", A=stage.need(operation.arguments["self"]))
    stage.give_several(operation.results, made, [torchs(result.rank) for result in operation.results])


RULES = {"aten.linalg_eigh": _eigh}
