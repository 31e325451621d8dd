"""Find the variables that statements read before they assign them, which therefore need values beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from port.translation.ir import syntax
from port.translation.ir.expr import names_in


def first_reads(statements: Sequence[syntax.Stmt], returns: syntax.Expr | None = None) -> set[str]:
    """Find the variables that may be read before they are assigned.

    Args:
        statements: in the order in which they run.
        returns: the value returned after them.
    """
    found: set[str] = set()
    known = _after(statements, set(), found)
    return found | (names_in(returns) - known)


def _after(statements: Iterable[syntax.Stmt], known: set[str], found: set[str]) -> set[str]:
    """The variables that certainly have values after some statements; earlier reads are added to ``found``."""
    known = set(known)
    for statement in statements:
        match statement:
            case syntax.Assign(target, value):
                assigned = _assigned(target)
                found |= (names_in(value) | (names_in(target) - assigned)) - known
                known |= assigned
            case syntax.If(test, body, orelse):
                found |= names_in(test) - known
                known = _after(body, known, found) & _after(orelse, known, found)
            case syntax.For(target, over, body):
                found |= names_in(over) - known
                _after(body, known | _assigned(target), found)  # the loop may have no iteration
            case _:
                found |= names_in(statement) - known
    return known


def _assigned(target: syntax.Expr) -> set[str]:
    """The variables that a target binds: ``mask`` of ``mask``, both of ``values, indices``, none of ``cache[name]``."""
    match target:
        case syntax.Name(name):
            return {name}
        case syntax.Tuple(items) | syntax.List(items):
            return set[str]().union(*map(_assigned, items))
        case syntax.Starred(inside):
            return _assigned(inside)
    return set()
