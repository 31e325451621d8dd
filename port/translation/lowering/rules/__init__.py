"""How each operator and layer is said in JAX over arrays whose axes are in another order. One file a family."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from port.errors import NoPair
from port.pairs.ops.aliases import meaning_of
from port.translation.ir.graph import LayerCall, Operation, each_value
from port.translation.lowering.rules import (
    axes,
    batch_norm,
    cast,
    concat_split,
    decompositions,
    from_pair,
    indexing,
    linalg,
    losses,
    pad,
    reshape,
    rng,
    symints,
    unsupported,
)
from port.translation.lowering.rules.modules import call_layer
from port.translation.lowering.rules.scalar_dims import as_numbers, of_lists_of_one

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext

Rule = Callable[["LoweringContext", Operation], None]

RULES: dict[str, Rule] = {
    **axes.RULES,
    **reshape.RULES,
    **indexing.RULES,
    **concat_split.RULES,
    **losses.RULES,
    **linalg.RULES,
    **batch_norm.RULES,
    **pad.RULES,
    **cast.RULES,
    **decompositions.RULES,
    **unsupported.RULES,
    **symints.RULES,
    **rng.RULES,
}
"""By an overload's whole name, or by the operator's (``"aten.cat"``)."""


def apply(stage: LoweringContext, operation: Operation) -> None:
    """Say an operator in JAX, or mark its place if nothing is known of it."""
    name = operation.operator
    base = name.rpartition(".")[0]
    rule = RULES.get(name) or RULES.get(base) or RULES.get(meaning_of(base), from_pair.from_pair)
    if from_pair.is_registered(operation):
        rule = from_pair.from_pair
    try:
        rule(stage, operation)
    except NoPair as error:
        listed = of_lists_of_one(stage, operation)
        if listed is not None:
            apply(stage, listed)
            as_numbers(stage, operation.results, listed.results)
        elif any(map(stage.is_read, operation.results)):
            stage.refuse(name.removesuffix(".default"), str(error), operation.results)


def apply_layer(stage: LoweringContext, call: LayerCall) -> None:
    """Say a layer's call in JAX, or mark its place."""
    try:
        call_layer(stage, call)
    except NoPair as error:
        results = tuple(each_value(call.results))
        what = f"{type(call.module).__module__}.{type(call.module).__qualname__}"
        stage.refuse(what, str(error), results)
