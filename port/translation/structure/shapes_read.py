"""Numbers that the original computes from a tensor's length, as reads of a variable's shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.graph import Value
from port.translation.ir.layout import Layout
from port.translation.ir.number import is_same
from port.translation.ir.origin import AttributeOf, LengthOf, LiteralAt, NamedLength, Origin, ParameterOf, ShapeRead
from port.translation.ir.origin_expression import leaves_of, value_of, with_leaves

Arrays = Callable[[str], tuple[Value, Layout] | None]
"""The array that a variable currently holds, and its layout; None if it holds none."""
Named = Callable[[LengthOf], NamedLength | None]
"""The variable that holds a length; None if there is none."""
Held = Callable[[AttributeOf], Any]
"""The value of an attribute of one of the original's modules."""


def with_shapes_read(
    expression: syntax.Expr, arrays: Arrays, named: Named = lambda _: None, held: Held = lambda _: None
) -> syntax.Expr:
    """Let numbers know which shape they can be read from in the written code: ``k.shape[-1]`` for ``k.size(-1)``.

    Args:
        expression: with the origins of its numbers.
        arrays: the arrays that variables hold.
        named: the lengths that variables hold.
        held: the values of attributes that occur together with lengths.
    """
    return syntax.transformed(expression, partial(_known, arrays=arrays, named=named, held=held))


def _known(node: syntax.Node, arrays: Arrays, named: Named, held: Held) -> syntax.Node:
    if not isinstance(node, syntax.Const) or node.origin is None:
        return node
    leaves = list(leaves_of(node.origin))
    if not any(isinstance(each, LengthOf) for each in leaves):
        return node
    read = {each: found for each in leaves if (found := _read(each, arrays, named)) is not None}
    numbers = {each: LiteralAt(length) for each, (_, length) in read.items()}
    numbers |= {each: LiteralAt(each.value) for each in leaves if isinstance(each, ParameterOf)}
    for each in leaves:
        if isinstance(each, AttributeOf) and isinstance(value := held(each), int | float):
            numbers[each] = LiteralAt(value)
    # A variable may have another array's name: the read has to yield the same number.
    if not is_same(value_of(with_leaves(node.origin, lambda each: numbers.get(each, each))), node.value):
        return node
    return replace(node, origin=with_leaves(node.origin, lambda each: read[each][0] if each in read else each))


def _read(origin: Origin, arrays: Arrays, named: Named) -> tuple[ShapeRead | NamedLength, int] | None:
    """How a length is read, and its value; None where no variable has it, or where it is symbolic."""
    if not isinstance(origin, LengthOf):
        return None
    known = named(origin)
    if known is not None:
        return known, known.value
    found = arrays(origin.tensor)
    if found is None:
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
