"""Liveness: the names that statements read before they bind them, and the names that they bind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from port.translation.ir import syntax
from port.translation.ir.expr import names_in


def live_in(statements: Sequence[syntax.Stmt]) -> set[str]:
    """The names that may be read with the values they have before the statements."""
    bound: set[str] = set()
    found: set[str] = set()
    for statement in statements:
        found |= _read(statement) - bound
        bound |= always_assigned([statement])
    return found


def assigned(statements: Iterable[syntax.Stmt]) -> list[str]:
    """The names that statements may bind, in order."""
    found: dict[str, None] = {}
    for node in syntax.walk(*statements):
        match node:
            case syntax.Assign(target) | syntax.AnnAssign(target) | syntax.For(target):
                found |= dict.fromkeys(_bound(target))
            case syntax.FunctionDef(name):
                found[name] = None
    return list(found)


def always_assigned(statements: Iterable[syntax.Stmt]) -> set[str]:
    """The names that are certainly bound after statements, whichever branches are taken."""
    found: set[str] = set()
    for statement in statements:
        match statement:
            case syntax.Assign(target) | syntax.AnnAssign(target):
                found |= set(_bound(target))
            case syntax.FunctionDef(name):
                found.add(name)
            case syntax.If(_, body, orelse):
                found |= always_assigned(body) & always_assigned(orelse)
    return found


def _read(statement: syntax.Stmt) -> set[str]:
    match statement:
        case syntax.Assign(target, value) | syntax.AnnAssign(target, _, value):
            return names_in(value) | (names_in(target) - set(_bound(target)))
        case syntax.If(test, body, orelse):
            return names_in(test) | live_in(body) | live_in(orelse)
        case syntax.For(target, items, body):
            return names_in(items) | (live_in(body) - set(_bound(target)))
        case syntax.FunctionDef(_, parameters, body):
            defaults = [parameter.default for parameter in parameters]
            return names_in(*defaults) | (live_in(body) - {parameter.name for parameter in parameters})
    return names_in(statement)


def _bound(target: syntax.Expr) -> list[str]:
    """The names that an assignment to a target binds; ``x`` of ``x.y`` is read."""
    match target:
        case syntax.Name(name):
            return [name]
        case syntax.Tuple(items) | syntax.List(items):
            return [name for item in items for name in _bound(item)]
        case syntax.Starred(value):
            return _bound(value)
    return []
