"""Parts of arrays: slices, single elements, indices; and writing to them, which makes a new array."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from port.errors import NoPair
from port.translation.ir import syntax
from port.translation.ir.expr import code, literal
from port.translation.ir.graph import Operation, Value
from port.translation.ir.layout import Layout, torchs, with_new, without

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext

Index = tuple[Any, ...]


def _slice(stage: LoweringContext, operation: Operation) -> None:
    value, result = operation.arguments["self"], operation.results[0]
    part = _part(stage, operation, value)
    if part is None:
        stage.alias(result, value, stage.layout(value))
        return
    dim = operation.arguments["dim"] % value.rank
    layout, expression = _unfolded(stage, value, dim)
    index = at_axis(layout.axis(dim), layout.rank, part)
    stage.give(result, subscript(expression, index), layout, follows=value)


def _select(stage: LoweringContext, operation: Operation) -> None:
    value, result = operation.arguments["self"], operation.results[0]
    dim = operation.arguments["dim"] % value.rank
    layout, expression = _unfolded(stage, value, dim)
    index = at_axis(layout.axis(dim), layout.rank, stage.ref(operation.arguments["index"]))
    stage.give(
        result,
        subscript(expression, index),
        without(layout, {dim}),
        follows=value if layout.folded is None else None,
        back=lambda wanted: None if wanted.folded is not None else with_new(wanted, dim)[0],
    )


def _slice_scatter(stage: LoweringContext, operation: Operation) -> None:
    value, result = operation.arguments["self"], operation.results[0]
    part = _part(stage, operation, value)
    if part is None:
        source = operation.arguments["src"]
        stage.alias(result, source, stage.layout(source))
        return
    _write(stage, operation, part)


def _select_scatter(stage: LoweringContext, operation: Operation) -> None:
    _write(stage, operation, stage.ref(operation.arguments["index"]))


def _write(stage: LoweringContext, operation: Operation, part: Any) -> None:
    value, result = operation.arguments["self"], operation.results[0]
    dim = operation.arguments["dim"] % value.rank
    layout, expression = _unfolded(stage, value, dim)
    source: Value = operation.arguments["src"]
    number = _filled_with(stage, source)
    if number is None:
        number = stage.need(source, layout if source.rank == layout.rank else without(layout, {dim}))
    index = at_axis(layout.axis(dim), layout.rank, part)
    made = code("place.set(source)", place=subscript(code("x.at", x=expression), index), source=number)
    stage.give(result, made, layout, follows=value)


def _filled_with(stage: LoweringContext, source: Value) -> syntax.Expr | None:
    """The number that a whole part is set to, if it is one."""
    operation = stage.producers.get(source)
    if operation is None or operation.operator not in ("aten.fill.Scalar", "aten.fill.Tensor", "aten.copy.default"):
        return None
    number = operation.arguments["src" if operation.operator == "aten.copy.default" else "value"]
    return _number(stage, number) if not isinstance(number, Value) or number.rank == 0 else None


def _number(stage: LoweringContext, number: Any) -> syntax.Expr:
    """What an array is filled with; its own dtype says nothing, the array's holds."""
    constant = stage.constant(number) if isinstance(number, Value) else None
    return literal(stage.ref(number) if constant is None else constant.item())


def _copy(stage: LoweringContext, operation: Operation) -> None:
    value, source, result = operation.arguments["self"], operation.arguments["src"], operation.results[0]
    if source.shape == result.shape and source.dtype == result.dtype:
        stage.alias(result, source, stage.layout(source))
        return
    expression = code("jnp.broadcast_to(x, y.shape)", x=stage.need(source), y=stage.need(value))
    if source.dtype != result.dtype:
        expression = code("x.astype(y.dtype)", x=expression, y=stage.need(value))
    stage.give(result, expression)


def _fill(stage: LoweringContext, operation: Operation) -> None:
    value, result = operation.arguments["self"], operation.results[0]
    expression = code(
        "jnp.full_like(x, number)", x=stage.ref(value), number=_number(stage, operation.arguments["value"])
    )
    stage.give(result, expression, stage.layout(value), follows=value)


def _index(stage: LoweringContext, operation: Operation) -> None:
    value, result = operation.arguments["self"], operation.results[0]
    indices = list(operation.arguments["indices"])
    if any(index is not None and index.dtype == "bool" for index in indices):
        raise NoPair("how many elements a mask selects depends on its values, and JAX's shapes do not; use torch.where")
    expression, index = _indexed(stage, value, indices)
    stage.give(result, subscript(expression, index), torchs(result.rank))


def _index_put(stage: LoweringContext, operation: Operation) -> None:
    value, result = operation.arguments["self"], operation.results[0]
    values: Value = operation.arguments["values"]
    indices = list(operation.arguments["indices"])
    if len(indices) == 1 and indices[0].dtype == "bool":
        if values.rank > 0 and values.shape != (1,):
            raise NoPair("values put where a mask is true are as many as the mask's values say; use torch.where")
        mask = stage.need(indices[0])
        for _ in range(value.rank - indices[0].rank):
            mask = subscript(mask, (..., None))
        new = stage.need(values)
        chosen = "mask, x + new, x" if operation.arguments["accumulate"] else "mask, new, x"
        made = code(f"jnp.where({chosen})", mask=mask, new=new, x=stage.need(value))
        stage.give(result, made)
        return
    if any(index is not None and index.dtype == "bool" for index in indices):
        raise NoPair("a mask among other indices: how many elements it selects depends on its values")
    expression, index = _indexed(stage, value, indices)
    method = "add" if operation.arguments["accumulate"] else "set"
    place = subscript(code("x.at", x=expression), index)
    stage.give(result, code(f"place.{method}(values)", place=place, values=stage.need(values)))


def _indexed(stage: LoweringContext, value: Value, indices: list[Any]) -> tuple[syntax.Expr, Index]:
    while indices and indices[-1] is None:
        indices.pop()
    return stage.need(value), tuple(slice(None) if index is None else stage.need(index) for index in indices)


def _part(stage: LoweringContext, operation: Operation, value: Value) -> slice | None:
    """The slice along its axis; None where it is the whole axis."""
    start, end, step = (operation.arguments[name] for name in ("start", "end", "step"))
    length = value.shape[operation.arguments["dim"] % value.rank]  # type: ignore[index]
    if isinstance(end, int) and (end >= sys.maxsize or (isinstance(length, int) and end >= length)):
        end = None
    if isinstance(end, Value) and end.length == length:
        end = None
    start = None if start == 0 and isinstance(start, int) else start
    step = None if step == 1 else step
    if start is None and end is None and step is None:
        return None
    return slice(*(None if part is None else literal(stage.ref(part)) for part in (start, end, step)))


def _unfolded(stage: LoweringContext, value: Value, dim: int) -> tuple[Layout, syntax.Expr]:
    """An array's layout and expression, where elements along an axis have to be in torch's order."""
    layout = stage.layout(value)
    if layout.folded is None or layout.folded.axis != dim:
        return layout, stage.ref(value)
    return torchs(value.rank), stage.need(value)


def at_axis(axis: int, rank: int, part: Any) -> Index:
    """The index that takes a part along an axis: ``[:, part]``, ``[..., part]``."""
    return (*(slice(None),) * axis, part)


def subscript(expression: syntax.Expr, index: Index) -> syntax.Expr:
    """``x[index]``."""
    return syntax.Subscript(expression, literal(index[0] if len(index) == 1 else index))


RULES = {
    "aten.slice": _slice,
    "aten.select": _select,
    "aten.slice_scatter": _slice_scatter,
    "aten.select_scatter": _select_scatter,
    "aten.copy": _copy,
    "aten.fill": _fill,
    "aten.index": _index,
    "aten.index_put": _index_put,
}
