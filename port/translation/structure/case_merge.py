"""What a module does in several example calls, as one body."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, zip_longest
from pkgutil import resolve_name
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import dotted, names_in
from port.translation.ir.source_location import SourceLocation
from port.translation.structure.body import Body
from port.translation.structure.case_conditions import CaseConditions, negation
from port.translation.structure.cases import CaseBody, Held, name_of

Cases = frozenset[int]
_NONE = syntax.Const(None)


class Indistinct(Exception):
    """Two cases differ, and no argument tells them apart.

    Attributes:
        cases: one of each kind.
        statement: that only one of them has.
        decides: the original's test that decides it, if that is known.
    """

    def __init__(self, cases: tuple[int, int], statement: str, decides: str = "") -> None:
        super().__init__(statement)
        self.cases, self.statement, self.decides = cases, statement, decides


@dataclass(frozen=True)
class MergedCases:
    """What a module does in several cases.

    Attributes:
        body: of its call.
        ambiguous: as `CaseConditions` has it.
    """

    body: Body
    ambiguous: frozenset[frozenset[Cases]] = frozenset()


def merged_cases(cases: Mapping[int, CaseBody], module: Any) -> MergedCases:
    """One body: what only some cases do stands behind a condition on the arguments.

    What is a literal in one case, and the argument that holds it in another, is that argument.

    Args:
        cases: by their numbers.
        module: whose call it is.

    Raises:
        Indistinct: no argument tells two cases apart.
    """
    bodies = [case.body for case in cases.values()]
    if all(_same(bodies[0], body) for body in bodies[1:]):
        return MergedCases(replace(bodies[0], parameters=_parameters(bodies)))
    merging = _Merging(cases, module)
    body = merging.body()
    read = names_in(*body.statements, body.returns)
    own = [name for name in merging.known if name_of(name).id in read]
    body = replace(body, parameters=tuple(dict.fromkeys((*_parameters(bodies), *own))))
    return MergedCases(body, frozenset(merging.conditions.ambiguous))


def _same(one: Body, other: Body) -> bool:
    return one.statements == other.statements and one.returns == other.returns


def _parameters(bodies: Sequence[Body]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for body in bodies for name in body.parameters))


@dataclass
class _Row:
    """A statement, the cases that have it, and the original's line that it is of."""

    statement: syntax.Stmt
    whose: Cases
    place: SourceLocation | None = None


@dataclass
class _Merging:
    """A merge on its way.

    Attributes:
        known: the parameters that hold something known in every case.
        unset: variables that are None in some cases, where others compute them.
        asked_first: tests of arguments that are given other values later → the variables that hold what they say.
    """

    cases: Mapping[int, CaseBody]
    module: Any
    known: list[str] = field(default_factory=list)
    unset: dict[str, Cases] = field(default_factory=dict)
    asked_first: dict[syntax.Expr, syntax.Name] = field(default_factory=dict)

    def __post_init__(self) -> None:
        first = next(iter(self.cases.values()))
        self.known = [name for name in first.held if all(name in case.held for case in self.cases.values())]
        self.conditions = CaseConditions(self.module, {number: case.held for number, case in self.cases.items()})
        self.names = {n: names_in(*case.body.statements, case.body.returns) for n, case in self.cases.items()}
        self.assigned = {n: set[str]().union(*map(_assigned, c.body.statements)) for n, c in self.cases.items()}

    def body(self) -> Body:
        numbers = list(self.cases)
        rows = self.rows_of(numbers[0])
        for number in numbers[1:]:
            rows = self.aligned(rows, self.rows_of(number), number)
        returns = self.returned()
        statements = self.guarded(self.with_unset(rows))
        statements = self.returning(statements, returns)
        asked: list[syntax.Stmt] = [syntax.Assign(name, test) for test, name in self.asked_first.items()]
        return Body((), (*asked, *statements), returns[-1][0], any(case.body.modes for case in self.cases.values()))

    # %% What cases have in common

    def rows_of(self, number: int) -> list[_Row]:
        """The statements of one case."""
        body = self.cases[number].body
        places = body.places or (None,) * len(body.statements)
        return [_Row(one, frozenset({number}), place) for one, place in zip_longest(body.statements, places)]

    def aligned(self, rows: list[_Row], own: list[_Row], number: int) -> list[_Row]:
        """The statements so far, and those of one more case: as many as can be are one."""
        table = [[self.unified(row.statement, row.whose, one.statement, number) for one in own] for row in rows]
        best = [[0] * (len(own) + 1) for _ in range(len(rows) + 1)]
        for i in reversed(range(len(rows))):
            for j in reversed(range(len(own))):
                together = best[i + 1][j + 1] + 1 if table[i][j] is not None else 0
                best[i][j] = max(together, best[i + 1][j], best[i][j + 1])
        made: list[_Row] = []
        i = j = 0
        while i < len(rows) and j < len(own):
            both = table[i][j]
            if both is not None and best[i][j] == best[i + 1][j + 1] + 1:
                made.append(_Row(both, rows[i].whose | {number}, rows[i].place))
                i, j = i + 1, j + 1
            elif best[i][j] == best[i + 1][j]:
                made.append(rows[i])
                i += 1
            else:
                made.append(own[j])
                j += 1
        return [*made, *rows[i:], *own[j:]]

    def unified(self, one: Any, whose: Cases, other: Any, number: int) -> Any:
        """What two trees both are, each in its cases; None where they are not one."""
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
        """Whether an expression is what a parameter holds, in each of some cases."""
        own = name_of(name)
        if tree == own:
            return True
        held: list[Held] = [self.cases[number].held[name] for number in whose]
        is_kept = not any(own.id in self.assigned[number] for number in whose)
        return is_kept and all(isinstance(value, syntax.Expr) and value == tree for value in held)

    def set_in_some(self, one: syntax.Expr, whose: Cases, other: syntax.Expr, number: int) -> syntax.Expr | None:
        """A variable that some cases compute, where others have None."""
        for variable, none, theirs in ((one, other, frozenset({number})), (other, one, whose)):
            if isinstance(variable, syntax.Name) and none == _NONE:
                if any(variable.id in self.names[case] for case in theirs) or variable.id in self.known:
                    continue
                self.unset[variable.id] = self.unset.get(variable.id, frozenset()) | theirs
                return variable
        return None

    def with_unset(self, rows: list[_Row]) -> list[_Row]:
        """The rows, and ``mask = None`` in the cases that do not compute it, beside the line that does."""
        for name, whose in self.unset.items():
            assigned = [place for place, row in enumerate(rows) if name in _assigned(row.statement)]
            read = any(name in names_in(row.statement) for row in rows if row.whose & whose)
            if read and assigned:
                none = _Row(syntax.Assign(syntax.Name(name), _NONE), whose)
                rows = [*rows[: assigned[-1] + 1], none, *rows[assigned[-1] + 1 :]]
        return rows

    # %% What some have

    def guarded(self, rows: list[_Row]) -> list[syntax.Stmt]:
        """The statements, those of some cases behind their condition."""
        everybody = frozenset(self.cases)
        everywhere = self.conditions.branches_around

        def block_of(row: _Row) -> Any:
            return row.whose, () if row.whose == everybody else everywhere(row.place)

        blocks = [(whose, list(block)) for (whose, _), block in groupby(rows, key=block_of)]
        statements: list[syntax.Stmt] = []
        assigned: set[str] = set()
        place = 0
        while place < len(blocks):
            whose, own = blocks[place]
            following = blocks[place + 1] if place + 1 < len(blocks) else None
            place += 1
            if whose == everybody:
                statements += [row.statement for row in own]
            elif not all(isinstance(row.statement, syntax.Comment) for row in own):
                other: list[_Row] = []
                if following is not None and following[0] == everybody - whose:
                    other, place = following[1], place + 1
                statements.append(self.branch(own, other, assigned))
                assigned |= {name for row in other for name in _assigned(row.statement)}
            assigned |= {name for row in own for name in _assigned(row.statement)}
        return statements

    def branch(self, own: list[_Row], other: list[_Row], assigned: set[str]) -> syntax.Stmt:
        """What some cases do behind their condition; what the others do in its other branch."""
        lines = [row.place for row in own]
        test = self.known_before(self.tested(own[0].whose, own[0].statement, lines), assigned)
        body = tuple(row.statement for row in own)
        orelse = tuple(row.statement for row in other)
        if all(isinstance(statement, syntax.Comment) for statement in orelse):
            orelse = ()
        if orelse and isinstance(test, syntax.UnaryOp) and test.op == "not":
            return syntax.If(test.operand, orelse, body)
        return syntax.If(test, body, orelse)

    def tested(self, whose: Cases, statement: syntax.Stmt, lines: Sequence[SourceLocation | None]) -> syntax.Expr:
        """The condition of some cases.

        Raises:
            Indistinct: there is none.
        """
        test = self.conditions.test(whose, lines=lines)
        if test is None:
            other = min(set(self.cases) - whose)
            raise Indistinct((min(whose), other), syntax.source(_first_line(statement)), self.conditions.decides(lines))
        return test

    def known_before(self, test: syntax.Expr, assigned: set[str]) -> syntax.Expr:
        """A condition on arguments; where they are given other values before it, it is asked at the head."""
        changed = sorted(names_in(test) & assigned)
        if not changed:
            return test
        positive = test
        for negative in (syntax.UnaryOp("not", test), negation(test)):
            positive = negative if negative in self.asked_first else positive
        if positive not in self.asked_first:
            used = set[str]().union(*self.names.values(), (name.id for name in self.asked_first.values()))
            wanted = [f"with_{changed[0]}", *(f"with_{changed[0]}{number}" for number in range(2, 100))]
            self.asked_first[positive] = syntax.Name(next(name for name in wanted if name not in used))
        known = self.asked_first[positive]
        return known if positive == test else syntax.UnaryOp("not", known)

    # %% What is given

    def returned(self) -> list[tuple[syntax.Expr | None, Cases]]:
        """What the cases give, each with those that give it."""
        found: list[tuple[syntax.Expr | None, Cases]] = []
        for number, case in self.cases.items():
            given = case.body.returns
            for place, (known, whose) in enumerate(found):
                both = known if known == given else None
                if both is None and known is not None and given is not None:
                    both = self.unified(known, whose, given, number)
                if both is not None or known is given:
                    found[place] = (both, whose | {number})
                    break
            else:
                found.append((given, frozenset({number})))
        return found

    def returning(
        self, statements: list[syntax.Stmt], returns: list[tuple[syntax.Expr | None, Cases]]
    ) -> list[syntax.Stmt]:
        """``if labels is not None: return loss, logits`` for what some give; what others give is left at the end."""
        assigned = {name for names in self.assigned.values() for name in names}
        left = frozenset(self.cases)
        self.conditions.check_returns([whose for _, whose in returns])
        while len(returns) > 1:
            tests = [self.conditions.of_returns(whose, left) for _, whose in returns]
            known = [number for number, test in enumerate(tests) if test is not None]
            number = min(known, key=lambda number: isinstance(tests[number], syntax.UnaryOp), default=None)
            if number is None:
                cases = min(returns[0][1]), min(returns[1][1])
                raise Indistinct(cases, _returned(returns[0][0]), self.conditions.decides(()))
            (given, whose), test = returns.pop(number), tests[number]
            assert test is not None
            returned = syntax.Return(_NONE if given is None else given)
            test = self.known_before(test, assigned)
            last = statements[-1] if statements else None
            if isinstance(last, syntax.If) and last.test == test and not last.orelse:
                statements[-1] = replace(last, body=(*last.body, returned))
            else:
                statements.append(syntax.If(test, (returned,)))
            left -= whose
        return statements


def _returned(given: syntax.Expr | None) -> str:
    return syntax.source(syntax.Return(_NONE if given is None else given))


_APART = object()


def _with_same_keywords(call: syntax.Call, other: syntax.Call) -> syntax.Call:
    """A call with the keywords of another, in that order; those that it has not are None, if that is their default."""
    own = {keyword.arg: keyword for keyword in call.keywords}
    order = [keyword.arg for keyword in (call if len(call.keywords) >= len(other.keywords) else other).keywords]
    lacking = [name for name in order if name not in own]
    if own.keys() - order or not all(name and _is_none_by_default(call.func, name) for name in lacking):
        return call
    return replace(call, keywords=tuple(own.get(name, syntax.Keyword(name, _NONE)) for name in order))


def _is_none_by_default(function: syntax.Expr, keyword: str) -> bool:
    """Whether leaving a keyword away is to give None for it."""
    path = dotted(function)
    if path.startswith("self."):
        return True  # an option of a layer's call, as ``mask`` is
    first, _, others = path.partition(".")
    try:
        found = resolve_name(f"{_WHOLE_NAMES.get(first, first)}.{others}")
        return inspect.signature(found).parameters[keyword].default is None
    except (ImportError, AttributeError, KeyError, TypeError, ValueError):
        return False


_WHOLE_NAMES = {"jnp": "jax.numpy", "lax": "jax.lax", "nnx": "flax.nnx", "F": "port.nn.functional"}


def _first_line(statement: syntax.Stmt) -> Any:
    match statement:
        case syntax.If(test) | syntax.For(test):
            return test
        case syntax.FunctionDef(name):
            return syntax.Name(name)
        case syntax.Comment():
            return syntax.Pass()
    return statement


def _assigned(statement: syntax.Stmt) -> set[str]:
    """The variables that a statement, or one in it, gives a value to."""
    found: set[str] = set()
    for node in syntax.walk(statement):
        if isinstance(node, syntax.Assign):
            found |= {each.id for each in syntax.walk(node.target) if isinstance(each, syntax.Name)}
    return found
