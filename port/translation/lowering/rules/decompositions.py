"""Eigendecompositions. The signs of eigenvectors are arbitrary; a model's output should not depend on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from port.errors import NoPair
from port.translation.ir.expr import code
from port.translation.ir.graph import Operation
from port.translation.ir.layout import torchs

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def _eigh(stage: LoweringContext, operation: Operation) -> None:
    """Lower ``eigh``. It has no pair, because only the proof can show whether the signs matter to the model."""
    if operation.arguments["UPLO"] != "L":
        raise NoPair('eigh with UPLO="U": JAX reads the lower triangle; pass the transpose and UPLO="L"')
    made = code("jnp.linalg.eigh(A, symmetrize_input=False)", A=stage.need(operation.arguments["self"]))
    stage.give_several(operation.results, made, [torchs(result.rank) for result in operation.results])


RULES = {"aten.linalg_eigh": _eigh}
