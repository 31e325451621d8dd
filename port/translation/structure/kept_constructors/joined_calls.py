"""Merge the constructions that one call of the original makes; an argument may be one number or several."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from port.translation.ir import syntax
from port.translation.ir.expr import code, worth
from port.translation.structure.kept_constructors.cannot_keep import CannotKeep

_TAKES_BOTH = ("strides", "padding", "kernel_dilation")
"""Arguments that a twin takes once per axis or once for all axes; kernel sizes it takes per axis only."""


def joined_constructions(one: syntax.Call, other: syntax.Call) -> syntax.Call:
    """Merge two constructions whose holes are named by the original's text.

    They may differ in the bias initialiser, which only one has; in an argument that is one number for one, and a number
    per axis for the other; and in arguments that only one of them receives through ``**kwargs``.

    Raises:
        CannotKeep: they differ in more.
    """
    mine, theirs = ({each.arg: each for each in call.keywords} for call in (one, other))
    only = {name for name in mine.keys() ^ theirs.keys() if name is not None and name.startswith("bias")}
    both = {name: _joined(mine[name], theirs[name]) for name in mine.keys() & theirs.keys()}
    found = {name: each for name, each in both.items() if each is not None}
    if one.func != other.func or one.args != other.args or mine.keys() | theirs.keys() != only | found.keys():
        raise CannotKeep(f"one call makes {syntax.source(one)} and {syntax.source(other)}")
    longer = one if len(mine) >= len(theirs) else other
    return syntax.Call(one.func, one.args, tuple(found.get(each.arg, each) for each in longer.keywords))


def _joined(one: syntax.Keyword, other: syntax.Keyword) -> syntax.Keyword | None:
    """Merge one argument of both; None where that is impossible."""
    if one == other or one.arg is None:
        return one if one == other else None
    text = _text(_whole(one.value), _whole(other.value), [*_numbers(one.value), *_numbers(other.value)])
    return None if text is None else syntax.Keyword(one.arg, _said(one.arg, text, _count(one.value, other.value)))


def _text(one: str | None, other: str | None, numbers: list[object]) -> str | None:
    """The original's text for both values, one of which may be torch's default for a missing argument."""
    if one is not None and other is not None:
        return max(one, other, key=len) if _key(one) == _key(other) else None
    text = one or other
    match text and _key(text), list(dict.fromkeys(numbers)):
        case (str(name), str(key)), [int() | float() as number]:
            return f"{name}.get({key!r}, {number!r})"
    return None


def _said(name: str, text: str, count: int) -> syntax.Expr:
    """Write the argument for the twin: per axis, or for all axes."""
    if name in _TAKES_BOTH or not count:
        return syntax.Hole(text)
    return code("(of,) * count if isinstance(of, int) else of", of=syntax.Hole(text), count=syntax.Const(count))


def _count(*values: syntax.Expr) -> int:
    """The number of axes; 0 for a single number."""
    for value in values:
        match value:
            case syntax.Tuple(items):
                return len(items)
            case syntax.IfExp(body=syntax.BinOp(_, "*", syntax.Const(int() as count))):
                return count
    return 0


def _whole(value: syntax.Expr) -> str | None:
    """The original's text behind a value: all of it, or the item of each axis; None if the value is more complex."""
    match value:
        case syntax.Hole(text):
            return text
        case syntax.IfExp(orelse=syntax.Hole(text)):
            return text
        case syntax.Tuple(items) if items:
            texts = [_of_axis(item) for item in items]
            first = texts[0]
            if first is None or None in texts:
                return None
            if len({*texts}) == 1 and len(items) > 1:
                return first
            whole = first.removesuffix("[0]")
            return whole if texts == [f"{whole}[{axis}]" for axis in range(len(items))] else None
    return None


def _of_axis(value: syntax.Expr) -> str | None:
    """The text of the value for one axis: a number, or equal padding before and after."""
    match value:
        case syntax.Hole(text):
            return text
        case syntax.Tuple((syntax.Hole(text), syntax.Hole(same))) if text == same:
            return text
    return None


def _numbers(value: syntax.Expr) -> Iterator[object]:
    """The parts of a value that are not text of the original."""
    if _whole(value) is not None:
        return
    if isinstance(value, syntax.Tuple):
        for item in value.elts:
            yield from _numbers(item)
        return
    try:
        yield worth(value)
    except ValueError:
        yield value


def _key(text: str) -> tuple[str, str] | str:
    """``("kwargs", "stride")`` for ``kwargs['stride']`` and ``kwargs.get('stride', 1)``; otherwise the text."""
    match ast.parse(text, mode="eval").body:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))):
            return name, key
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get"), args=[ast.Constant(value=str(key)), *_]):
            return name, key
    return text
