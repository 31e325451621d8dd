"""Bring operands of different layouts and ranks to a common layout in which they broadcast."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from port.translation.ir import syntax
from port.translation.ir.expr import literal
from port.translation.ir.graph import Value
from port.translation.ir.layout import Layout, of_lower_rank

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def together(stage: LoweringContext, operands: list[Value]) -> tuple[Layout, list[syntax.Expr], Value]:
    """Choose the common layout of the operands of a broadcast.

    Operands with a free layout follow those with a fixed one; among these, the first of the highest rank leads.

    Returns:
        The layout, the operands' expressions in it, and the leading operand, whose layout it is.
    """
    leader = leading(stage, operands)
    layout = stage.layout(leader)
    for other in operands:
        if layout.folded is not None and not _fits_fold(stage, other, layout):
            layout = replace(layout, folded=None)
    return layout, [fitting(stage, operand, layout) for operand in operands], leader


def leading(stage: LoweringContext, operands: list[Value]) -> Value:
    """Return the operand whose layout the others follow."""
    rank = max(value.rank for value in operands)
    highest = [value for value in operands if value.rank == rank]

    def cost(value: Value) -> tuple[bool, bool, int]:
        free = stage.source_of(value) is not None or value in stage.graph.held or value in stage.graph.constants
        ones = sum(size == 1 for size in value.shape or ())
        return free, stage.layout(value).is_torchs and ones > 0, ones

    return min(highest, key=cost)


def fitting(stage: LoweringContext, value: Value, layout: Layout) -> syntax.Expr:
    """Return the expression of an operand that broadcasts against an array of the layout."""
    lacking = layout.rank - value.rank
    if value.rank == 0:
        return stage.need(value)
    order = tuple(dim - lacking for dim in layout.order if dim >= lacking)
    folded = layout.folded
    if folded is not None:
        axis = folded.axis - lacking
        folded = replace(folded, axis=axis) if axis >= 0 and value.shape[axis] != 1 else None  # type: ignore[index]
    wanted = of_lower_rank(layout, value.rank) or Layout(order)
    wanted = Layout(wanted.order, folded)
    expression = stage.need(value, _nearest(stage, value, wanted))
    first = next(k for k, dim in enumerate(layout.order) if dim >= lacking)
    behind = layout.order[first:]
    if all(dim >= lacking for dim in behind):
        return expression
    index = tuple(slice(None) if dim >= lacking else None for dim in behind)
    return syntax.Subscript(expression, literal(_shortened(index)))


def _nearest(stage: LoweringContext, value: Value, wanted: Layout) -> Layout:
    """Return the wanted layout, or the current one if they differ only in axes of length 1."""
    has = stage.layout(value)
    if (
        has.folded == wanted.folded
        and value.shape is not None
        and all(
            mine == theirs or value.shape[mine] == value.shape[theirs] == 1
            for mine, theirs in zip(has.order, wanted.order, strict=True)
        )
    ):
        return has
    return wanted


def _shortened(index: tuple[slice | None, ...]) -> tuple[object, ...]:
    """Shorten ``[:, :, None]`` to ``[..., None]``."""
    if index[-1] is None and all(part is not None for part in index[:-1]) and len(index) > 1:
        return (..., None)
    return index


def _fits_fold(stage: LoweringContext, value: Value, layout: Layout) -> bool:
    folded = layout.folded
    assert folded is not None
    axis = folded.axis - (layout.rank - value.rank)
    if axis < 0 or value.shape is None or value.shape[axis] == 1:
        return True
    has = stage.layout(value).folded
    return has is not None and replace(has, axis=folded.axis) == folded
