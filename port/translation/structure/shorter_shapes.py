"""Shorten consecutive lengths: ``*x.shape[:2]`` for ``x.shape[0], x.shape[1]``."""

from __future__ import annotations

from collections.abc import Callable

from port.translation.ir import syntax
from port.translation.ir.expr import code

Rank = Callable[[syntax.Expr], int | None]
"""The number of axes of an array; None if unknown."""
Count = Callable[[str], int | None]
"""The number of lengths in a variable; None for one that holds no list of lengths."""


def with_whole_shapes(expression: syntax.Expr, rank: Rank, count: Count = lambda _: None) -> syntax.Expr:
    """Write ``y.reshape(*x.shape[:2], 8)`` for ``y.reshape(x.shape[0], x.shape[1], 8)``, or the slice alone."""

    def of(node: syntax.Node) -> syntax.Node:
        match node:
            case syntax.Call(syntax.Attribute(_, "reshape"), arguments, ()):
                return syntax.Call(node.func, _shorter(arguments, rank, count))
            case syntax.Tuple(items) if len(items) > 1:
                made = _shorter(items, rank, count)
                whole = len(made) == 1 and isinstance(made[0], syntax.Starred)
                return made[0].value if whole else syntax.Tuple(made)  # type: ignore[attr-defined]
        return node

    return syntax.transformed(expression, of)


def _shorter(items: tuple[syntax.Expr, ...], rank: Rank, count: Count) -> tuple[syntax.Expr, ...]:
    """Shorten consecutive lengths of one array's shape in a list of items."""
    made: list[syntax.Expr] = []
    place = 0
    while place < len(items):
        run = _run(items[place:], rank, count)
        made += [items[place]] if run is None else [run[1]]
        place += 1 if run is None else run[0]
    return tuple(made)


def _run(items: tuple[syntax.Expr, ...], rank: Rank, count: Count) -> tuple[int, syntax.Expr] | None:
    """The number of leading items that are consecutive lengths of one array, and the slice of its shape."""
    known = _read(items[0])
    if known is None:
        return None
    lengths, first = known
    match lengths:
        case syntax.Attribute(array):
            axes = rank(array)
        case syntax.Name(name):
            axes = count(name)
            if axes is None:
                return None  # an item of another kind of list
    found = 1
    while found < len(items) and (read := _read(items[found])) is not None and read[0] == lengths:
        axis = read[1] + (axes or 0) if read[1] < 0 else read[1]
        if axis != first + found:
            break
        found += 1
    if found < 2 or first < 0:
        return None
    ends = f"{first or ''}:{'' if first + found == axes else first + found}"
    return found, syntax.Starred(lengths if ends == ":" else code(f"x[{ends}]", x=lengths))


def _read(item: syntax.Expr) -> tuple[syntax.Expr, int] | None:
    """The shape or list that a length is read from, and its index."""
    match item:
        case syntax.Subscript(syntax.Attribute(_, "shape") | syntax.Name() as lengths, syntax.Const(int(axis))):
            return lengths, axis
        case syntax.Subscript(
            syntax.Attribute(_, "shape") | syntax.Name() as lengths, syntax.UnaryOp("-", syntax.Const(int(axis)))
        ):
            return lengths, -axis
    return None
