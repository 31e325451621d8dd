"""Lowering rules that no pair can express: rewrites into other operators, and the structure of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from port.errors import NoPair
from port.pairs.ops.aliases import meaning_of
from port.translation.ir.graph import UNREAD_DRAW, LayerCall, Operation, each_value
from port.translation.lowering.axes import lower
from port.translation.lowering.drawing import unread_draw
from port.translation.lowering.paired import is_registered, pair_of
from port.translation.lowering.rules import (
    batch_norm,
    decompositions,
    layer_weights,
    rewrites,
    sloped,
    symints,
    unsupported,
)
from port.translation.lowering.rules.modules import call_layer
from port.translation.lowering.rules.scalar_dims import restore_scalars, with_scalars_as_vectors

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext

Rule = Callable[["LoweringContext", Operation], None]

REWRITES: dict[str, rewrites.Rewrite] = {**rewrites.REWRITES, "aten.linear": layer_weights.of_a_layer}
"""Operator name → the rewrite into another operator."""

RULES: dict[str, Rule] = {
    **batch_norm.RULES,
    **decompositions.RULES,
    **layer_weights.RULES,
    **sloped.RULES,
    **symints.RULES,
    **unsupported.RULES,
    UNREAD_DRAW: unread_draw,
}
"""Overload's full name, or operator name → the rule for an operator without a pair."""


def apply(stage: LoweringContext, operation: Operation) -> None:
    """Lower an operator, or mark it as unsupported if no pair or rule covers it and its result is read."""
    try:
        _apply(stage, operation)
    except NoPair as error:
        listed = with_scalars_as_vectors(stage, operation)
        if listed is not None:
            apply(stage, listed)
            restore_scalars(stage, operation.results, listed.results)
        elif any(map(stage.is_read, operation.results)):
            stage.refuse(operation.operator.removesuffix(".default"), str(error), operation.results)


def _apply(stage: LoweringContext, operation: Operation) -> None:
    if is_registered(operation):  # the user's pairs also take precedence over rules
        lower(stage, pair_of(operation))
        return
    rewrite = REWRITES.get(meaning_of(_base(operation)))
    operation = operation if rewrite is None else rewrite(stage, operation)
    rule = RULES.get(operation.operator) or RULES.get(_base(operation))
    if rule is None:
        lower(stage, pair_of(operation))
    else:
        rule(stage, operation)


def _base(operation: Operation) -> str:
    return operation.operator.rpartition(".")[0]


def apply_layer(stage: LoweringContext, call: LayerCall) -> None:
    """Lower a layer's call, or mark it as unsupported."""
    try:
        call_layer(stage, call)
    except NoPair as error:
        results = tuple(each_value(call.results))
        what = f"{type(call.module).__module__}.{type(call.module).__qualname__}"
        stage.refuse(what, str(error), results)
