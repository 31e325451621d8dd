"""Statements that repeat for one item of a list after the other, as a loop."""

from __future__ import annotations

import ast
import copy

_LONGEST = 8


def rolled(statements: list[ast.stmt], lengths: dict[str, int], taken: set[str]) -> list[ast.stmt]:
    """``for layer in self.layers: x = layer(x)`` for ``x = self.layers[0](x)``, ``x = self.layers[1](x)``, …

    Only what is the same but for the index is rolled up, so that the loop does what the statements did.

    Args:
        statements: of a body.
        lengths: of the lists that ``self`` holds.
        taken: names that stand for something else.
    """
    made: list[ast.stmt] = []
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


def _repeat(statements: list[ast.stmt], start: int, lengths: dict[str, int]) -> tuple[str, int, int] | None:
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


def _without(block: list[ast.stmt], name: str, index: int) -> str | None:
    """The source of some statements with one item of a list replaced; None if others of it stand there, or none."""
    found = {place for statement in block for of, place in _indices(statement) if of == name}
    if found != {index}:
        return None
    return "\n".join(ast.dump(_Replacing(name, index, "<item>").visit(copy.deepcopy(statement))) for statement in block)


def _indices(statement: ast.stmt) -> list[tuple[str, int]]:
    found = []
    for node in ast.walk(statement):
        match node:
            case ast.Subscript(
                value=ast.Attribute(value=ast.Name(id="self"), attr=name), slice=ast.Constant(value=int(index))
            ):
                found.append((name, index))
    return found


class _Replacing(ast.NodeTransformer):
    def __init__(self, name: str, index: int, by: str) -> None:
        self.name, self.index, self.by = name, index, by

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Subscript(
                value=ast.Attribute(value=ast.Name(id="self"), attr=name), slice=ast.Constant(value=int(index))
            ) if name == self.name and index == self.index:
                return ast.Name(self.by)
        return node


def _loop(block: list[ast.stmt], name: str, rounds: int, length: int, taken: set[str]) -> ast.stmt:
    item = _item(name, taken)
    body = [_Replacing(name, 0, item).visit(copy.deepcopy(statement)) for statement in block]
    items = ast.parse(f"self.{name}" if rounds == length else f"self.{name}[:{rounds}]", mode="eval").body
    return ast.For(ast.Name(item), items, body, [], lineno=0)


def _item(name: str, taken: set[str]) -> str:
    """``layer`` for an item of ``layers``."""
    wanted = name[:-1] if name.endswith("s") and len(name) > 2 else "layer"
    while wanted in taken:
        wanted = f"{wanted}_"
    return wanted
