"""Statements that repeat for one item of a list after the other, as a loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.structure.anti_unify import Differ, Holes, numbered, unified

_LONGEST = 8
_PLACE = numbered(0)
"""Stands for the number of the round: as the index of an item, or by itself."""


def rolled(statements: Sequence[syntax.Stmt], lengths: dict[str, int], taken: set[str]) -> list[syntax.Stmt]:
    """``for layer in self.layers: x = layer(x)`` for ``x = self.layers[0](x)``, ``x = self.layers[1](x)``, …

    What differs may also be the index by itself (``for i, layer in enumerate(self.layers)``), and may be of several
    lists (``for norm, layer in zip(self.norms, self.layers)``). All else is the same in each round, so that the loop
    does what the statements did.

    Args:
        statements: of a body.
        lengths: of the lists that ``self`` holds.
        taken: names that stand for something else.
    """
    made: list[syntax.Stmt] = []
    number = 0
    while number < len(statements):
        found = _repeat(statements, number, lengths)
        if found is None:
            made.append(statements[number])
            number += 1
            continue
        made.append(_loop(found, lengths, taken))
        number += len(found.block) * found.rounds
    return made


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
    lists: tuple[str, ...]


def _repeat(statements: Sequence[syntax.Stmt], start: int, lengths: dict[str, int]) -> _Repeat | None:
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


def _reads_first_item(statement: syntax.Stmt, lengths: dict[str, int]) -> bool:
    return any(_list_of(node, syntax.Const(0)) in lengths for node in syntax.walk(statement))


def _list_of(node: syntax.Node, index: syntax.Expr) -> str | None:
    """``layers`` for ``self.layers[index]``."""
    match node:
        case syntax.Subscript(syntax.Attribute(syntax.Name("self"), name), place) if place == index:
            return name
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


def _lists_of(block: Sequence[syntax.Stmt], lengths: dict[str, int]) -> tuple[str, ...]:
    found = [_list_of(node, _PLACE) for node in syntax.walk(*block)]
    return tuple(dict.fromkeys(name for name in found if name in lengths))


def _loop(repeat: _Repeat, lengths: dict[str, int], taken: set[str]) -> syntax.Stmt:
    names: dict[str, str] = {}
    for of in repeat.lists:
        names[of] = _free_name(of[:-1] if of.endswith("s") and len(of) > 2 else "layer", {*taken, *names.values()})
    index = syntax.Name(_free_name("i", {*taken, *names.values()}))

    def written(node: syntax.Node) -> syntax.Node:
        name = _list_of(node, index)  # the innermost is replaced first: the index stands there already
        return syntax.Name(names[name]) if name in names else index if node == _PLACE else node

    block = tuple(syntax.transformed(statement, written) for statement in repeat.block)
    items = [code(f"self.{name}") for name in repeat.lists]
    if repeat.rounds < min(lengths[name] for name in repeat.lists):
        items[0] = code(f"self.{repeat.lists[0]}[:{repeat.rounds}]")
    target: syntax.Expr = syntax.Name(names[repeat.lists[0]])
    through = items[0]
    if len(items) > 1:
        target = syntax.Tuple(tuple(syntax.Name(names[name]) for name in repeat.lists))
        through = syntax.Call(syntax.Name("zip"), tuple(items))
    if any(node == index for node in syntax.walk(*block)):
        target, through = syntax.Tuple((index, target)), syntax.Call(syntax.Name("enumerate"), (through,))
    return syntax.For(target, through, block)


def _free_name(wanted: str, taken: set[str]) -> str:
    """``layer`` for an item of ``layers``."""
    while wanted in taken:
        wanted = f"{wanted}_"
    return wanted
