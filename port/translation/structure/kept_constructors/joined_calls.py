"""Constructions of a layer that one call of the original's makes, as one: an argument may be a number or several."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from port.translation.ir import syntax
from port.translation.ir.expr import code, worth
from port.translation.structure.kept_constructors.cannot_keep import CannotKeep

_TAKES_BOTH = ("strides", "padding", "kernel_dilation")
"""What a twin takes for each axis, or for all of them; the size of its kernel it takes for each."""


def joined_constructions(one: syntax.Call, other: syntax.Call) -> syntax.Call:
    """One construction for two, whose places are named by the original's text.

    They may differ in how a bias starts, which only one has; in an argument that is a number for one and has one for
    each axis for the other; and in what is only given to one of them by ``**kwargs``.

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
    """One argument for two; None where they cannot be said alike."""
    if one == other or one.arg is None:
        return one if one == other else None
    text = _text(_whole(one.value), _whole(other.value), [*_numbers(one.value), *_numbers(other.value)])
    return None if text is None else syntax.Keyword(one.arg, _said(one.arg, text, _count(one.value, other.value)))


def _text(one: str | None, other: str | None, numbers: list[object]) -> str | None:
    """The original's text for two: of which one may be what torch does where it is not given."""
    if one is not None and other is not None:
        return max(one, other, key=len) if _key(one) == _key(other) else None
    text = one or other
    match text and _key(text), list(dict.fromkeys(numbers)):
        case (str(name), str(key)), [int() | float() as number]:
            return f"{name}.get({key!r}, {number!r})"
    return None


def _said(name: str, text: str, count: int) -> syntax.Expr:
    """What is given for each axis, or for all of them, to the twin."""
    if name in _TAKES_BOTH or not count:
        return syntax.Hole(text)
    return code("(of,) * count if isinstance(of, int) else of", of=syntax.Hole(text), count=syntax.Const(count))


def _count(*values: syntax.Expr) -> int:
    """How many axes there are; 0 of what is a number."""
    for value in values:
        match value:
            case syntax.Tuple(items):
                return len(items)
            case syntax.IfExp(body=syntax.BinOp(_, "*", syntax.Const(int() as count))):
                return count
    return 0


def _whole(value: syntax.Expr) -> str | None:
    """The original's text of which a value is made: all of it, or the item of each axis; None where it is of more."""
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
    """The text of what is given for one axis: a number, or the same before and behind."""
    match value:
        case syntax.Hole(text):
            return text
        case syntax.Tuple((syntax.Hole(text), syntax.Hole(same))) if text == same:
            return text
    return None


def _numbers(value: syntax.Expr) -> Iterator[object]:
    """What a value is made of, but for text of the original's."""
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
    """``("kwargs", "stride")`` for ``kwargs['stride']`` and ``kwargs.get('stride', 1)``; other texts as they are."""
    match ast.parse(text, mode="eval").body:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))):
            return name, key
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get"), args=[ast.Constant(value=str(key)), *_]):
            return name, key
    return text
