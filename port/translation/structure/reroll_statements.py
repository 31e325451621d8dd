"""Statements that repeat for one item of a list after the other, as a loop."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from port.translation.ir import syntax
from port.translation.structure.anti_unify import Differ, Holes, numbered, unified

_LONGEST = 8
_PLACE = numbered(0)
"""Stands for the number of the round: as the index of an item, or by itself."""


Lengths = Mapping[syntax.Expr, int]
"""The lists that a module holds, as its own code reads them (``self.layers``, ``self.parts["layers"]``)."""


def rolled(
    statements: Sequence[syntax.Stmt], lengths: Lengths, taken: set[str], counted: Collection[syntax.Expr] = ()
) -> list[syntax.Stmt]:
    """``for layer in self.layers: x = layer(x)`` for ``x = self.layers[0](x)``, ``x = self.layers[1](x)``, …

    What differs may also be the index by itself (``for i, layer in enumerate(self.layers)``), and may be of several
    lists (``for norm, layer in zip(self.norms, self.layers)``). All else is the same in each round, so that the loop
    does what the statements did.

    Args:
        statements: of a body.
        lengths: of the lists that ``self`` holds.
        taken: names that stand for something else.
        counted: lists that are as long as an argument says: what is done with the only item of one is a loop, too.
    """
    made: list[syntax.Stmt] = []
    number = 0
    while number < len(statements):
        found = _repeat(statements, number, lengths) or _single(statements[number], lengths, counted)
        if found is None:
            made.append(_with_loops_inside(statements[number], lengths, taken, counted))
            number += 1
            continue
        made.append(_loop(found, lengths, taken))
        number += len(found.block) * found.rounds
    return made


def _with_loops_inside(
    statement: syntax.Stmt, lengths: Lengths, taken: set[str], counted: Collection[syntax.Expr]
) -> syntax.Stmt:
    """A statement with the loops in its branches."""
    if not isinstance(statement, syntax.If):
        return statement
    body, orelse = (tuple(rolled(part, lengths, taken, counted)) for part in (statement.body, statement.orelse))
    return replace(statement, body=body, orelse=orelse)


@dataclass(frozen=True)
class _Repeat:
    """Statements that repeat.

    Attributes:
        block: those of one round, with `_PLACE` for its number.
        rounds: how many there are.
        lists: whose items are gone through, in the order in which they are read.
    """

    block: tuple[syntax.Stmt, ...]
    rounds: int
    lists: tuple[syntax.Expr, ...]


def _repeat(statements: Sequence[syntax.Stmt], start: int, lengths: Lengths) -> _Repeat | None:
    """What repeats from here on, in as few statements a round as may be."""
    for period in range(1, min(_LONGEST, (len(statements) - start) // 2) + 1):
        first = statements[start : start + period]
        if not any(_reads_first_item(statement, lengths) for statement in first):
            continue
        block, rounds = _in_round(first, statements[start + period : start + 2 * period], 1), 1
        lists = () if block is None else _lists_of(block, lengths)
        if block is None or not lists:
            continue
        while _in_round(first, statements[start + period * rounds : start + period * (rounds + 1)], rounds) == block:
            rounds += 1
        return _Repeat(block, rounds, lists)
    return None


def _single(statement: syntax.Stmt, lengths: Lengths, counted: Collection[syntax.Expr]) -> _Repeat | None:
    """The only round over lists of one item."""
    found = {_list_of(node, syntax.Const(0)) for node in syntax.walk(statement)}
    lists = [of for of in counted if of in found and lengths.get(of) == 1]
    if not lists:
        return None

    def placed(node: syntax.Node) -> syntax.Node:
        of = _list_of(node, syntax.Const(0))
        return syntax.Subscript(of, _PLACE) if of is not None and of in lists else node

    return _Repeat((syntax.transformed(statement, placed),), 1, tuple(lists))


def _reads_first_item(statement: syntax.Stmt, lengths: Lengths) -> bool:
    return any(_list_of(node, syntax.Const(0)) in lengths for node in syntax.walk(statement))


def _list_of(node: syntax.Node, index: syntax.Expr) -> syntax.Expr | None:
    """``self.layers`` for ``self.layers[index]``."""
    match node:
        case syntax.Subscript(value, place) if place == index:
            return value
    return None


def _in_round(
    first: Sequence[syntax.Stmt], other: Sequence[syntax.Stmt], number: int
) -> tuple[syntax.Stmt, ...] | None:
    """The first round with `_PLACE` where another round has its number in place of 0; None if more differs."""
    if len(other) < len(first):
        return None
    holes = Holes()
    try:
        block = tuple(unified(pair, holes) for pair in zip(first, other, strict=True))
    except Differ:
        return None
    differ = [hole.values for hole in holes.found]
    return block if differ == [(0, number)] and all(type(value) is int for value in differ[0]) else None


def _lists_of(block: Sequence[syntax.Stmt], lengths: Lengths) -> tuple[syntax.Expr, ...]:
    found = [_list_of(node, _PLACE) for node in syntax.walk(*block)]
    return tuple(dict.fromkeys(of for of in found if of is not None and of in lengths))


def _item_name(of: syntax.Expr) -> str:
    """``layer`` for an item of ``self.layers``."""
    match of:
        case syntax.Attribute(attr=name) | syntax.Subscript(slice=syntax.Const(str() as name)):
            return name[:-1] if name.endswith("s") and len(name) > 2 and name[:-1].isidentifier() else "layer"
    return "layer"


def _loop(repeat: _Repeat, lengths: Lengths, taken: set[str]) -> syntax.Stmt:
    names: dict[syntax.Expr, str] = {}
    for of in repeat.lists:
        names[of] = _free_name(_item_name(of), {*taken, *names.values()})
    index = syntax.Name(_free_name("i", {*taken, *names.values()}))

    def written(node: syntax.Node) -> syntax.Node:
        of = _list_of(node, index)  # the innermost is replaced first: the index stands there already
        return syntax.Name(names[of]) if of in names else index if node == _PLACE else node

    block = tuple(syntax.transformed(statement, written) for statement in repeat.block)
    items: list[syntax.Expr] = list(repeat.lists)
    if repeat.rounds < min(lengths[of] for of in repeat.lists):
        items[0] = syntax.Subscript(items[0], syntax.Slice(upper=syntax.Const(repeat.rounds)))
    target: syntax.Expr = syntax.Name(names[repeat.lists[0]])
    through = items[0]
    if len(items) > 1:
        target = syntax.Tuple(tuple(syntax.Name(names[of]) for of in repeat.lists))
        through = syntax.Call(syntax.Name("zip"), tuple(items))
    if any(node == index for node in syntax.walk(*block)):
        target, through = syntax.Tuple((index, target)), syntax.Call(syntax.Name("enumerate"), (through,))
    return syntax.For(target, through, block)


def _free_name(wanted: str, taken: set[str]) -> str:
    """``layer`` for an item of ``layers``."""
    while wanted in taken:
        wanted = f"{wanted}_"
    return wanted


def list_lengths(attributes: Mapping[str, syntax.Expr]) -> dict[syntax.Expr, int]:
    """The lists that a module holds, and those in its dicts: as its own code reads each → how many items it has."""
    return {
        of: count
        for name, value in attributes.items()
        for of, count in _lengths(syntax.Attribute(syntax.Name("self"), name), value)
    }


def _lengths(of: syntax.Expr, value: syntax.Expr) -> Iterator[tuple[syntax.Expr, int]]:
    match value:
        case syntax.Call(syntax.Attribute(attr="frozen"), (made,)):
            yield from _lengths(of, made)
        case syntax.Call(syntax.Attribute(attr="List"), (syntax.List(items),)):
            yield of, len(items)
        case syntax.Call(syntax.Attribute(attr="Dict"), (syntax.Dict(keys, values),)):
            for key, item in zip(keys, values, strict=True):
                yield from _lengths(syntax.Subscript(of, key), item)


def counted(attributes: Mapping[str, syntax.Expr]) -> list[syntax.Expr]:
    """The lists that a module holds, and those in its dicts, which a comprehension makes."""
    return [
        of for name, value in attributes.items() for of in _counted(syntax.Attribute(syntax.Name("self"), name), value)
    ]


def _counted(of: syntax.Expr, value: syntax.Expr) -> Iterator[syntax.Expr]:
    match value:
        case syntax.Call(syntax.Attribute(attr="frozen"), (made,)):
            yield from _counted(of, made)
        case syntax.Call(syntax.Attribute(attr="List"), (syntax.ListComp(),)):
            yield of
        case syntax.Call(syntax.Attribute(attr="Dict"), (syntax.Dict(keys, values),)):
            for key, item in zip(keys, values, strict=True):
                yield from _counted(syntax.Subscript(of, key), item)
