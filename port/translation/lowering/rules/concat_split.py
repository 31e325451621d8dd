"""Joining arrays along an axis, and taking them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.ir.graph import Operation, Size, Value
from port.translation.ir.layout import with_new, without
from port.translation.lowering.rules.broadcast import together

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def _cat(stage: LoweringContext, operation: Operation) -> None:
    result = operation.results[0]
    tensors = [tensor for tensor in operation.arguments["tensors"] if tensor.shape != (0,) or result.rank == 1]
    layout, parts, leader = together(stage, tensors)
    dim = operation.arguments["dim"] % result.rank
    if layout.folded is not None and layout.folded.axis == dim:
        parts = [stage.need(tensor) for tensor in tensors]
        layout = type(layout)(tuple(range(result.rank)))
    axis = from_end(layout.axis(dim), result.rank)
    expression = code("jnp.concatenate(parts, axis=axis)", parts=parts, axis=axis)
    stage.give(result, expression, layout, follows=leader if layout == stage.layout(leader) else None)


def _stack(stage: LoweringContext, operation: Operation) -> None:
    result = operation.results[0]
    layout, parts, _ = together(stage, list(operation.arguments["tensors"]))
    layout, place = with_new(layout, operation.arguments["dim"] % result.rank)
    axis = from_end(place, result.rank)
    stage.give(result, code("jnp.stack(parts, axis=axis)", parts=parts, axis=axis), layout)


def _split(stage: LoweringContext, operation: Operation) -> None:
    value, results = operation.arguments["self"], operation.results
    dim = operation.arguments["dim"] % value.rank
    layout = stage.layout(value)
    expression = stage.ref(value)
    if layout.folded is not None and layout.folded.axis == dim:
        expression, layout = stage.need(value), type(layout)(tuple(range(value.rank)))
    axis = from_end(layout.axis(dim), value.rank)
    lengths = [result.shape[dim] for result in results]  # type: ignore[index]
    if len(results) == 1:
        stage.alias(results[0], value, layout)
        return
    equal = len(set(lengths)) == 1
    cuts: object = len(results) if equal else [_cut(stage, results[k], lengths[:k]) for k in range(1, len(results))]
    made = code("jnp.split(x, cuts, axis=axis)", x=expression, cuts=cuts, axis=axis)
    stage.give_several(results, made, [layout] * len(results), value)


def _cut(stage: LoweringContext, behind: Value, lengths: list[Size]) -> int | syntax.Expr:
    """Where a part begins: what the parts before it have together; a formula where that is free."""
    if all(isinstance(length, int) for length in lengths):
        return sum(lengths)  # type: ignore[arg-type]
    formula = " + ".join(f"({length})" for length in lengths)
    cut = Value(f"{behind.name}_cut", None, "size", formula if len(lengths) > 1 else lengths[0])
    stage.placed.values[cut.name] = cut
    return stage.ref(cut)  # type: ignore[no-any-return]


def _unbind(stage: LoweringContext, operation: Operation) -> None:
    value = operation.arguments["self"]
    dim = operation.arguments["dim"] % value.rank
    layout = stage.layout(value)
    expression = stage.ref(value)
    if layout.folded is not None and layout.folded.axis == dim:
        expression, layout = stage.need(value), type(layout)(tuple(range(value.rank)))
    axis = from_end(layout.axis(dim), value.rank)
    after = without(layout, {dim})
    made = code("jnp.unstack(x, axis=axis)", x=expression, axis=axis)
    stage.give_several(operation.results, made, [after] * len(operation.results))


def from_end(axis: int, rank: int) -> int:
    """The last axis as −1, which is how channels are spoken of; others from the front."""
    return -1 if rank > 1 and axis == rank - 1 else axis


RULES = {
    "aten.cat": _cat,
    "aten.stack": _stack,
    "aten.split": _split,
    "aten.split_with_sizes": _split,
    "aten.chunk": _split,
    "aten.unbind": _unbind,
}
