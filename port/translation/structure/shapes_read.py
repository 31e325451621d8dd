"""Numbers that the original works out from a tensor's length, where a variable of the written code has that length."""

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
"""What a variable holds at this moment, if that is an array, and how its axes lie."""
Named = Callable[[LengthOf], NamedLength | None]
"""The variable that a length is the value of, if there is one."""
Held = Callable[[AttributeOf], Any]
"""What a module of the original's holds."""


def with_shapes_read(
    expression: syntax.Expr, arrays: Arrays, named: Named = lambda _: None, held: Held = lambda _: None
) -> syntax.Expr:
    """An expression whose numbers know where the written code can read them off: ``k.shape[-1]`` for ``k.size(-1)``.

    Args:
        expression: with its origins.
        arrays: by the variables' names.
        named: lengths that are variables.
        held: the attributes that stand beside lengths.
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
    # A variable may have another array's name: what is read off it has to give the same number.
    if not is_same(value_of(with_leaves(node.origin, lambda each: numbers.get(each, each))), node.value):
        return node
    return replace(node, origin=with_leaves(node.origin, lambda each: read[each][0] if each in read else each))


def _read(origin: Origin, arrays: Arrays, named: Named) -> tuple[ShapeRead | NamedLength, int] | None:
    """How a length is read, and what it is; None where no variable has it, or it is free."""
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
