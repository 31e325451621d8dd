"""Statements that repeat for one item of a list after the other, as a loop."""

from __future__ import annotations

from collections.abc import Sequence

from port.translation.ir import syntax
from port.translation.ir.expr import code

_LONGEST = 8


def rolled(statements: Sequence[syntax.Stmt], lengths: dict[str, int], taken: set[str]) -> list[syntax.Stmt]:
    """``for layer in self.layers: x = layer(x)`` for ``x = self.layers[0](x)``, ``x = self.layers[1](x)``, …

    Only what is the same but for the index is rolled up, so that the loop does what the statements did.

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
        name, period, rounds = found
        made.append(_loop(statements[number : number + period], name, rounds, lengths[name], taken))
        number += period * rounds
    return made


def _repeat(statements: Sequence[syntax.Stmt], start: int, lengths: dict[str, int]) -> tuple[str, int, int] | None:
    """The list whose items are gone through from here on, in how many statements each, and how many of them."""
    names = {name for name, index in _indices(statements[start]) if index == 0}
    for name in sorted(names & lengths.keys()):
        for period in range(1, min(_LONGEST, len(statements) - start) + 1):
            first = _without(statements[start : start + period], name, 0)
            if first is None:
                continue
            rounds = 1
            while _without(statements[start + period * rounds : start + period * (rounds + 1)], name, rounds) == first:
                rounds += 1
            if rounds > 1:
                return name, period, rounds
    return None


def _without(block: Sequence[syntax.Stmt], name: str, index: int) -> list[syntax.Stmt] | None:
    """Some statements with a hole for one item of a list; None if others of it stand there, or none."""
    found = {place for statement in block for of, place in _indices(statement) if of == name}
    if found != {index}:
        return None
    return [_replaced(statement, name, index, syntax.Hole("item")) for statement in block]


def _indices(statement: syntax.Stmt) -> list[tuple[str, int]]:
    items = map(_item_of, syntax.walk(statement))
    return [item for item in items if item is not None]


def _item_of(node: syntax.Node) -> tuple[str, int] | None:
    """``("layers", 0)`` for ``self.layers[0]``."""
    match node:
        case syntax.Subscript(syntax.Attribute(syntax.Name("self"), name), syntax.Const(int(index))):
            return name, index
    return None


def _replaced(statement: syntax.Stmt, name: str, index: int, by: syntax.Expr) -> syntax.Stmt:
    return syntax.transformed(statement, lambda node: by if _item_of(node) == (name, index) else node)


def _loop(block: Sequence[syntax.Stmt], name: str, rounds: int, length: int, taken: set[str]) -> syntax.Stmt:
    item = syntax.Name(_free_name(name, taken))
    items = code(f"self.{name}" if rounds == length else f"self.{name}[:{rounds}]")
    return syntax.For(item, items, tuple(_replaced(statement, name, 0, item) for statement in block))


def _free_name(name: str, taken: set[str]) -> str:
    """``layer`` for an item of ``layers``."""
    wanted = name[:-1] if name.endswith("s") and len(name) > 2 else "layer"
    while wanted in taken:
        wanted = f"{wanted}_"
    return wanted
