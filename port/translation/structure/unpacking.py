"""Assign several results of one statement in readable form: ``values, indices = lax.top_k(x, 2)``."""

from __future__ import annotations

from collections.abc import Sequence

from port.translation.ir import syntax
from port.translation.ir.expr import dotted, names_in

_UNREAD = syntax.Name("_")
_RESULTS = {"lax.top_k": 2}
"""Functions that return a tuple of results → how many, for operators whose expression reads them one by one."""
_GLANCE = 60
"""The longest statement, in characters, that assigns several results at once."""


def assigned(target: syntax.Expr, value: syntax.Expr) -> list[syntax.Stmt]:
    """Write the statements that assign a value to a target.

    If a tuple of expressions is assigned to a tuple of names, unread names are dropped, a call that all items read is
    written once, and a long statement is split into one per name.

    Args:
        target: a name, or a tree of names; ``_`` for unread results.
        value: the value to assign.
    """
    plain: list[syntax.Stmt] = [syntax.Assign(target, value)]
    if not isinstance(target, syntax.Tuple) or not isinstance(value, syntax.Tuple):
        return plain
    names, parts = target.elts, value.elts
    if len(names) != len(parts) or not all(isinstance(name, syntax.Name) for name in names):
        return plain
    call = _shared_call(parts)
    if call is not None:
        return _unpacked(names, parts, call) or plain
    read = [pair for pair in zip(names, parts, strict=True) if pair[0] != _UNREAD or _acts(pair[1])]
    one_by_one: list[syntax.Stmt] = [syntax.Assign(name, part) for name, part in read]
    if len(read) < 2:
        return one_by_one
    together = syntax.Assign(*(syntax.Tuple(tuple(items)) for items in zip(*read, strict=True)))
    is_long = len(syntax.source(together)) > _GLANCE
    return one_by_one if is_long and _are_apart(read) else [together]


def _acts(part: syntax.Expr) -> bool:
    """Whether an expression may have side effects: it calls what the module holds."""
    return any(isinstance(node, syntax.Call) and "self" in names_in(node) for node in syntax.walk(part))


def _are_apart(pairs: Sequence[tuple[syntax.Expr, syntax.Expr]]) -> bool:
    """Whether no expression reads a name that an earlier pair assigns."""
    bound: set[str] = set()
    for name, part in pairs:
        if bound & names_in(part):
            return False
        bound |= names_in(name)
    return True


def _shared_call(parts: Sequence[syntax.Expr]) -> syntax.Call | None:
    """The call of which each part reads exactly one result, in order."""
    for node in syntax.walk(parts[0]):
        match node:
            case syntax.Subscript(syntax.Call() as call, _) if _RESULTS.get(dotted(call.func)) == len(parts):
                taken = [_taken_of(call, part) for part in parts]
                if taken == [[syntax.Const(number)] for number in range(len(parts))]:
                    return call
    return None


def _taken_of(call: syntax.Call, part: syntax.Expr) -> list[syntax.Expr]:
    """The results of a call that a part reads."""
    return [node.slice for node in syntax.walk(part) if isinstance(node, syntax.Subscript) and node.value == call]


def _unpacked(
    names: Sequence[syntax.Expr], parts: Sequence[syntax.Expr], call: syntax.Call
) -> list[syntax.Stmt] | None:
    """Write the call, then what is computed from each result; None where a name would be overwritten too early."""
    statements: list[syntax.Stmt] = [syntax.Assign(syntax.Tuple(tuple(names)), call)]
    bound = set[str]().union(*map(names_in, names))
    for number, (name, part) in enumerate(zip(names, parts, strict=True)):
        rest = _replaced(part, syntax.Subscript(call, syntax.Const(number)), _RESULT)
        if rest == _RESULT or name == _UNREAD:
            continue
        if names_in(rest) & bound:
            return None
        statements.append(syntax.Assign(name, _replaced(rest, _RESULT, name)))
    return statements


_RESULT = syntax.Hole("result")


def _replaced(tree: syntax.Expr, what: syntax.Expr, by: syntax.Expr) -> syntax.Expr:
    return syntax.transformed(tree, lambda node: by if node == what else node)
