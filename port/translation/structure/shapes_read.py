"""Numbers that the original works out from a tensor's length, where a variable of the written code has that length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from port.translation.ir import syntax
from port.translation.ir.graph import Value
from port.translation.ir.layout import Layout
from port.translation.ir.number import is_same
from port.translation.ir.origin import LengthOf, LiteralAt, Origin, ParameterOf, ShapeRead
from port.translation.ir.origin_expression import leaves_of, value_of, with_leaves

Arrays = Callable[[str], tuple[Value, Layout] | None]
"""What a variable holds at this moment, if that is an array, and how its axes lie."""


def with_shapes_read(expression: syntax.Expr, arrays: Arrays) -> syntax.Expr:
    """An expression whose numbers know where the written code can read them off: ``k.shape[-1]`` for ``k.size(-1)``.

    Args:
        expression: with its origins.
        arrays: by the variables' names.
    """
    return syntax.transformed(expression, partial(_known, arrays=arrays))


def _known(node: syntax.Node, arrays: Arrays) -> syntax.Node:
    if not isinstance(node, syntax.Const) or node.origin is None:
        return node
    leaves = list(leaves_of(node.origin))
    if not any(isinstance(each, LengthOf) for each in leaves):
        return node
    read = {each: found for each in leaves if (found := _read(each, arrays)) is not None}
    numbers = {each: LiteralAt(length) for each, (_, length) in read.items()}
    numbers |= {each: LiteralAt(each.value) for each in leaves if isinstance(each, ParameterOf)}
    # A variable may have another array's name: what is read off it has to give the same number.
    if not is_same(value_of(with_leaves(node.origin, lambda each: numbers.get(each, each))), node.value):
        return node
    return replace(node, origin=with_leaves(node.origin, lambda each: read[each][0] if each in read else each))


def _read(origin: Origin, arrays: Arrays) -> tuple[ShapeRead, int] | None:
    """How a length is read, and what it is; None where no variable has it, or it is free."""
    found = arrays(origin.tensor) if isinstance(origin, LengthOf) else None
    if found is None or not isinstance(origin, LengthOf):
        return None
    value, layout = found
    shape = value.shape or ()
    if not -len(shape) <= origin.axis < len(shape):
        return None
    length = shape[origin.axis]
    if not isinstance(length, int):
        return None
    axis = layout.axis(origin.axis % len(shape))
    return ShapeRead(origin.tensor, axis - len(shape) if origin.axis < 0 else axis), length
