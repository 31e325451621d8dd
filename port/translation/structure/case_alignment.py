"""Align the statements of several example calls: which are the same statement, and which cases each belongs to."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pkgutil import resolve_name
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import dotted, names_in
from port.translation.ir.source_location import SourceLocation
from port.translation.structure.cases import CaseBody, Held, name_of

Cases = frozenset[int]
"""Numbers of example calls."""
_NONE = syntax.Const(None)


@dataclass(frozen=True)
class CaseRow:
    """A statement, the cases that have it, and the line of the original that it comes from."""

    statement: syntax.Stmt
    whose: Cases
    place: SourceLocation | None = None


@dataclass
class CaseAlignment:
    """The bodies of one module's call in several cases, aligned statement by statement.

    Args:
        cases: the bodies, by case number.

    Attributes:
        known: parameters whose values are known in every case.
        names: case → the names that its body contains.
        assigned: case → the names that its body assigns.
        unset: variables that some cases compute and others leave None → the latter.
    """

    cases: Mapping[int, CaseBody]
    known: list[str] = field(default_factory=list)
    names: dict[int, set[str]] = field(default_factory=dict)
    assigned: dict[int, set[str]] = field(default_factory=dict)
    unset: dict[str, Cases] = field(default_factory=dict)

    def __post_init__(self) -> None:
        first = next(iter(self.cases.values()))
        self.known = [name for name in first.held if all(name in case.held for case in self.cases.values())]
        self.names = {n: names_in(*case.body.statements, case.body.returns) for n, case in self.cases.items()}
        self.assigned = {n: set[str]().union(*map(assigned_in, c.body.statements)) for n, c in self.cases.items()}

    def rows(self) -> list[CaseRow]:
        """The statements of all cases, merged wherever possible, in an order that respects every case's."""
        first, *others = self.cases
        rows = self.rows_of(first)
        for number in others:
            rows = self.aligned(rows, self.rows_of(number), number)
        return rows

    def returned(self) -> list[tuple[syntax.Expr | None, Cases]]:
        """The return values of the cases, each with the cases that return it."""
        found: list[tuple[syntax.Expr | None, Cases]] = []
        for number, case in self.cases.items():
            returned = case.body.returns
            for place, (known, whose) in enumerate(found):
                both = known if known == returned else None
                if both is None and known is not None and returned is not None:
                    both = self.unified(known, whose, returned, number)
                if both is not None or known is returned:
                    found[place] = (both, whose | {number})
                    break
            else:
                found.append((returned, frozenset({number})))
        return found

    def rows_of(self, number: int) -> list[CaseRow]:
        """The statements of one case."""
        body = self.cases[number].body
        places = body.places or (None,) * len(body.statements)
        return [CaseRow(one, frozenset({number}), place) for one, place in zip_longest(body.statements, places)]

    def aligned(self, rows: list[CaseRow], own: list[CaseRow], number: int) -> list[CaseRow]:
        """Merge the statements so far with those of one more case (longest common subsequence)."""
        table = [[self.unified(row.statement, row.whose, one.statement, number) for one in own] for row in rows]
        best = [[0] * (len(own) + 1) for _ in range(len(rows) + 1)]
        for i in reversed(range(len(rows))):
            for j in reversed(range(len(own))):
                together = best[i + 1][j + 1] + 1 if table[i][j] is not None else 0
                best[i][j] = max(together, best[i + 1][j], best[i][j + 1])
        made: list[CaseRow] = []
        i = j = 0
        while i < len(rows) and j < len(own):
            both = table[i][j]
            if both is not None and best[i][j] == best[i + 1][j + 1] + 1:
                made.append(CaseRow(both, rows[i].whose | {number}, rows[i].place))
                i, j = i + 1, j + 1
            elif best[i][j] == best[i + 1][j]:
                made.append(rows[i])
                i += 1
            else:
                made.append(own[j])
                j += 1
        return [*made, *rows[i:], *own[j:]]

    def unified(self, one: Any, whose: Cases, other: Any, number: int) -> Any:
        """Merge two trees into one that is right in the cases of both; None where there is none."""
        if one == other:
            return one
        if isinstance(one, syntax.Expr) and isinstance(other, syntax.Expr):
            for name in self.known:
                if self.means(one, name, whose) and self.means(other, name, frozenset({number})):
                    return name_of(name)
            if (variable := self.set_in_some(one, whose, other, number)) is not None:
                return variable
        if type(one) is not type(other) or isinstance(one, syntax.Const | syntax.Name):
            return None
        if isinstance(one, syntax.Call) and isinstance(other, syntax.Call):
            one, other = _with_same_keywords(one, other), _with_same_keywords(other, one)
        parts = [self.part(getattr(one, name), whose, getattr(other, name), number) for name in syntax.fields_of(one)]
        return None if any(part is _APART for part in parts) else type(one)(*parts)

    def part(self, one: Any, whose: Cases, other: Any, number: int) -> Any:
        if isinstance(one, syntax.Node) and isinstance(other, syntax.Node):
            made = self.unified(one, whose, other, number)
            return _APART if made is None else made
        if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
            items = [self.part(mine, whose, theirs, number) for mine, theirs in zip(one, other, strict=True)]
            return _APART if any(item is _APART for item in items) else tuple(items)
        return one if one == other else _APART

    def means(self, tree: syntax.Expr, name: str, whose: Cases) -> bool:
        """Whether an expression is the value of a parameter in each of some cases."""
        own = name_of(name)
        if tree == own:
            return True
        held: list[Held] = [self.cases[number].held[name] for number in whose]
        is_kept = not any(own.id in self.assigned[number] for number in whose)
        return is_kept and all(isinstance(value, syntax.Expr) and value == tree for value in held)

    def set_in_some(self, one: syntax.Expr, whose: Cases, other: syntax.Expr, number: int) -> syntax.Expr | None:
        """A variable that some cases compute and others have as None."""
        for variable, none, theirs in ((one, other, frozenset({number})), (other, one, whose)):
            if isinstance(variable, syntax.Name) and none == _NONE:
                if any(variable.id in self.names[case] for case in theirs) or variable.id in self.known:
                    continue
                self.unset[variable.id] = self.unset.get(variable.id, frozenset()) | theirs
                return variable
        return None

    def with_unset(self, rows: list[CaseRow]) -> list[CaseRow]:
        """Add ``mask = None`` for the cases that do not compute it, after the line that does."""
        for name, whose in self.unset.items():
            assigned = [place for place, row in enumerate(rows) if name in assigned_in(row.statement)]
            read = any(name in names_in(row.statement) for row in rows if row.whose & whose)
            if read and assigned:
                none = CaseRow(syntax.Assign(syntax.Name(name), _NONE), whose)
                rows = [*rows[: assigned[-1] + 1], none, *rows[assigned[-1] + 1 :]]
        return rows


_APART = object()


def _with_same_keywords(call: syntax.Call, other: syntax.Call) -> syntax.Call:
    """Give a call the keywords of another, in that order; those that it lacks become None if that is their default."""
    own = {keyword.arg: keyword for keyword in call.keywords}
    order = [keyword.arg for keyword in (call if len(call.keywords) >= len(other.keywords) else other).keywords]
    lacking = [name for name in order if name not in own]
    if own.keys() - order or not all(name and _is_none_by_default(call.func, name) for name in lacking):
        return call
    return replace(call, keywords=tuple(own.get(name, syntax.Keyword(name, _NONE)) for name in order))


def _is_none_by_default(function: syntax.Expr, keyword: str) -> bool:
    """Whether omitting a keyword means passing None."""
    path = dotted(function)
    if path.startswith("self."):
        return True  # an option of a layer's call, such as ``mask``
    first, _, others = path.partition(".")
    try:
        found = resolve_name(f"{_WHOLE_NAMES.get(first, first)}.{others}")
        return inspect.signature(found).parameters[keyword].default is None
    except (ImportError, AttributeError, KeyError, TypeError, ValueError):
        return False


_WHOLE_NAMES = {"jnp": "jax.numpy", "lax": "jax.lax", "nnx": "flax.nnx", "F": "port.nn.functional"}


def assigned_in(statement: syntax.Stmt) -> set[str]:
    """The variables that a statement, or one nested in it, assigns."""
    found: set[str] = set()
    for node in syntax.walk(statement):
        if isinstance(node, syntax.Assign):
            found |= {each.id for each in syntax.walk(node.target) if isinstance(each, syntax.Name)}
    return found
