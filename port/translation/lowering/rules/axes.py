"""Operators that reorder axes, add or drop them: most of them leave the array as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from port.translation.ir.expr import code
from port.translation.ir.graph import Operation, Value
from port.translation.ir.layout import Layout, moved, permuted, torchs, with_new, without
from port.translation.lowering.transposes import transposed

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def _permute(stage: LoweringContext, operation: Operation) -> None:
    value = operation.arguments["self"]
    _permuted(stage, value, tuple(operation.arguments["dims"]), operation.results[0])


def _transpose(stage: LoweringContext, operation: Operation) -> None:
    value: Value = operation.arguments["self"]
    dims = list(range(value.rank))
    if dims:
        one, other = (operation.arguments[name] % value.rank for name in ("dim0", "dim1"))
        dims[one], dims[other] = dims[other], dims[one]
    _permuted(stage, value, tuple(dims), operation.results[0])


def _matrix(stage: LoweringContext, operation: Operation) -> None:
    value: Value = operation.arguments["self"]
    n = value.rank
    _permuted(stage, value, (*range(n - 2), n - 1, n - 2) if n > 1 else tuple(range(n)), operation.results[0])


def _reversed(stage: LoweringContext, operation: Operation) -> None:
    value: Value = operation.arguments["self"]
    _permuted(stage, value, tuple(reversed(range(value.rank))), operation.results[0])


def _permuted(stage: LoweringContext, value: Value, dims: tuple[int, ...], result: Value) -> None:
    """The same array beside the permuted tensor, unless a reader needs its axes in another order."""
    layout = permuted(stage.layout(value), dims)
    wanted = stage.preferred.get(result.name)
    if wanted is None or wanted == layout or layout.folded is not None:
        stage.alias(result, value, layout, source=True)
        return
    expression = transposed(stage.ref(value), moved(layout, wanted))
    stage.give(result, expression, wanted)


def _unsqueeze(stage: LoweringContext, operation: Operation) -> None:
    value, result = operation.arguments["self"], operation.results[0]
    dim = operation.arguments["dim"] % result.rank
    layout, place = with_new(stage.layout(value), dim)
    place = -1 if place == value.rank else place
    expression = code("jnp.expand_dims(x, axis)", x=stage.ref(value), axis=place)
    stage.give(result, expression, layout, follows=value, back=lambda wanted: without(wanted, {dim}))


def _squeeze(stage: LoweringContext, operation: Operation) -> None:
    value, result = operation.arguments["self"], operation.results[0]
    dims = operation.arguments.get("dim", range(value.rank))
    dims = [dims] if isinstance(dims, int) else dims
    gone = {dim % value.rank for dim in dims if value.rank and value.shape[dim] == 1}
    squeeze(stage, value, gone, result)


def squeeze(stage: LoweringContext, value: Value, gone: set[int], result: Value) -> None:
    """An array without some axes of length 1."""
    layout = stage.layout(value)
    if not gone:
        stage.alias(result, value, layout)
        return
    places = tuple(sorted(layout.axis(dim) for dim in gone))
    axis = places[0] if len(places) == 1 else places

    def back(wanted: Layout) -> Layout | None:
        if wanted.folded is not None:
            return None
        for dim in sorted(gone):
            wanted = with_new(wanted, dim)[0]
        return wanted

    expression = code("jnp.squeeze(x, axis)", x=stage.ref(value), axis=axis)
    stage.give(result, expression, without(layout, gone), follows=value, back=back)


def _expand(stage: LoweringContext, operation: Operation) -> None:
    value, result = operation.arguments["self"], operation.results[0]
    sizes = list(operation.arguments["size"])
    lacking = result.rank - value.rank
    if not lacking and all(size == -1 or size == has for size, has in zip(sizes, value.shape, strict=True)):
        stage.alias(result, value, stage.layout(value))
        return
    layout = stage.layout(value)
    if lacking:
        layout = torchs(result.rank)
        expression = stage.need(value)
    else:
        expression = stage.ref(value)
    shape = []
    for k, dim in enumerate(layout.order):
        size = sizes[dim]
        kept = dim >= lacking and (size == -1 or (value.shape[dim - lacking] != 1 and not isinstance(size, int)))
        if kept and isinstance(value.shape[dim - lacking], int):
            shape.append(value.shape[dim - lacking])
        elif kept:
            shape.append(code("x.shape[k]", x=expression, k=k - lacking))
        else:
            shape.append(stage.ref(size))
    follows = value if not lacking else None
    stage.give(result, code("jnp.broadcast_to(x, shape)", x=expression, shape=tuple(shape)), layout, follows=follows)


RULES = {
    "aten.permute": _permute,
    "aten.transpose": _transpose,
    "aten.swapaxes": _transpose,
    "aten.t": _reversed,
    "aten.numpy_T": _reversed,
    "aten.mT": _matrix,
    "aten.unsqueeze": _unsqueeze,
    "aten.squeeze": _squeeze,
    "aten.expand": _expand,
}
