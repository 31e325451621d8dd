"""Merge nested ``expand_dims``: ``x[:, None, None]`` for ``jnp.expand_dims(jnp.expand_dims(x, 1), -1)``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from port.translation.ir import syntax
from port.translation.ir.expr import code

_EXPAND = code("jnp.expand_dims")
_NEW, _WHOLE, _REST = syntax.Const(None), syntax.Slice(), syntax.Const(...)


def with_bracketed_axes(expression: syntax.Expr, rank_of: Callable[[str], int | None]) -> syntax.Expr:
    """Merge nested calls of ``jnp.expand_dims`` into one index; a single call stays unchanged.

    Args:
        expression: an expression that reads values by `syntax.Use`.
        rank_of: returns a value's rank by its name; with None, axes counted from the start and from the end are not
            merged.
    """

    def bracketed(node: syntax.Expr) -> syntax.Expr:
        array, axes = _unwrapped(node)
        if len(axes) < 2:
            return syntax.with_parts(node, bracketed)
        rank = rank_of(array.name) if isinstance(array, syntax.Use) else None
        index = _index(axes, rank)
        if index is None:
            return syntax.with_parts(node, bracketed)
        return syntax.Subscript(bracketed(array), index[0] if len(index) == 1 else syntax.Tuple(tuple(index)))

    return bracketed(expression)


def _unwrapped(node: syntax.Expr) -> tuple[syntax.Expr, list[int]]:
    """Return the array inside nested calls of ``jnp.expand_dims``, and their axes, the innermost first."""
    match node:
        case syntax.Call(func, (array, axis), ()) if func == _EXPAND and (number := _number(axis)) is not None:
            inner, axes = _unwrapped(array)
            return inner, [*axes, number]
    return node, []


def _number(axis: syntax.Expr) -> int | None:
    match axis:
        case syntax.Const(int(number)):
            return number
        case syntax.UnaryOp(_, syntax.Const(int(number))):
            return -number
    return None


def _index(axes: Sequence[int], rank: int | None) -> list[syntax.Expr] | None:
    """Return the index that inserts axes one after the other; None if their order depends on an unknown rank."""
    if rank is not None:
        axes = [axis if axis >= 0 else rank + 1 + number + axis for number, axis in enumerate(axes)]
    if all(axis >= 0 for axis in axes):
        return _brackets(axes)
    if all(axis < 0 for axis in axes):
        return [_REST, *reversed(_brackets([-1 - axis for axis in axes]))]
    return None


def _brackets(axes: Sequence[int]) -> list[syntax.Expr]:
    """Return the index that inserts axes which are all counted from one end."""
    new: list[int] = []
    for axis in axes:
        new = [*(each + (each >= axis) for each in new), axis]
    return [_NEW if place in new else _WHOLE for place in range(max(new) + 1)]
