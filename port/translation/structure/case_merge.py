"""Merge what a module does in several example calls into one body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import names_in
from port.translation.structure.case_alignment import CaseAlignment, CaseRow, Cases, assigned_in
from port.translation.structure.case_conditions import CaseConditions, is_absence, negation
from port.translation.structure.cases import CaseBody, name_of
from port.translation.structure.first_reads import first_reads
from port.translation.structure.written_body import Body

_NONE = syntax.Const(None)


class Indistinct(Exception):
    """Two cases differ, and no argument distinguishes them.

    Attributes:
        cases: one case of each kind.
        statement: a statement that only one of them has.
        decides: the original's test that decides it, if known.
    """

    def __init__(self, cases: tuple[int, int], statement: str, decides: str = "") -> None:
        super().__init__(statement)
        self.cases, self.statement, self.decides = cases, statement, decides


def merged_cases(cases: Mapping[int, CaseBody], module: Any, function: Any) -> Body:
    """Merge the bodies of several cases: what only some cases do goes under a condition on the arguments.

    A literal of one case that is an argument's value in another is written as that argument.

    Args:
        cases: the bodies, by case number.
        module: the module that is called.
        function: the function that is called.

    Raises:
        Indistinct: no argument distinguishes two cases.
    """
    bodies = [case.body for case in cases.values()]
    if all(_same(bodies[0], body) for body in bodies[1:]):
        return replace(bodies[0], parameters=_parameters(bodies))
    merging = _Merging(cases, module, function)
    body = merging.body()
    read = first_reads(body.statements, body.returns)
    own = [name for name in merging.alignment.known if name_of(name).id in read]
    return replace(body, parameters=tuple(dict.fromkeys((*_parameters(bodies), *own))))


def _same(one: Body, other: Body) -> bool:
    return one.statements == other.statements and one.returns == other.returns


def _parameters(bodies: Sequence[Body]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for body in bodies for name in body.parameters))


class _Merging:
    """A merge in progress.

    Args:
        cases: the bodies, by case number.
        module: the module that is called.
        function: the function that is called.

    Attributes:
        asked_first: tests whose arguments the body reassigns before they are needed → the variables that hold their
            results, set at the top of the call.
    """

    def __init__(self, cases: Mapping[int, CaseBody], module: Any, function: Any) -> None:
        self.cases, self.everybody = cases, frozenset(cases)
        self.alignment = CaseAlignment(cases)
        self.conditions = CaseConditions(module, function, {number: case.held for number, case in cases.items()})
        self.asked_first: dict[syntax.Expr, syntax.Name] = {}

    def body(self) -> Body:
        rows, returns = self.alignment.rows(), self.alignment.returned()
        statements = self.guarded(self.alignment.with_unset(rows))
        statements = self.returning(statements, returns)
        asked: list[syntax.Stmt] = [syntax.Assign(name, test) for test, name in self.asked_first.items()]
        return Body((), (*asked, *statements), returns[-1][0], any(case.body.modes for case in self.cases.values()))

    # %% Statements of some cases

    def guarded(self, rows: list[CaseRow]) -> list[syntax.Stmt]:
        """The merged statements, with those of only some cases under their condition."""
        statements: list[syntax.Stmt] = []
        assigned: set[str] = set()
        blocks = [list(block) for _, block in groupby(rows, key=self._block_of)]
        place = 0
        while place < len(blocks):
            own = blocks[place]
            place += 1
            if own[0].whose == self.everybody:
                statements += [row.statement for row in own]
            elif not _are_comments(own):
                test = self.tested(own)
                other = blocks[place] if place < len(blocks) else []
                is_other = bool(other) and other[0].whose == self.everybody - own[0].whose and not _are_comments(other)
                if not is_other or not _are_opposite(test, self.tested(other)):
                    other = []
                place += bool(other)
                statements.append(_branch(self.known_before(test, assigned), own, other))
                assigned |= {name for row in other for name in assigned_in(row.statement)}
            assigned |= {name for row in own for name in assigned_in(row.statement)}
        return statements

    def _block_of(self, row: CaseRow) -> Any:
        """A key that is equal for rows under the same condition."""
        return row.whose, () if row.whose == self.everybody else self.conditions.branches_around(row.place)

    def tested(self, rows: list[CaseRow]) -> syntax.Expr:
        """The condition of some rows' cases.

        Raises:
            Indistinct: there is none.
        """
        whose, lines = rows[0].whose, [row.place for row in rows]
        test = self.conditions.test(whose, lines=lines)
        if test is None:
            statement = syntax.source(_first_line(rows[0].statement))
            raise Indistinct((min(whose), min(self.everybody - whose)), statement, self.conditions.decides(lines))
        return test

    def known_before(self, test: syntax.Expr, assigned: set[str]) -> syntax.Expr:
        """The condition; where its arguments are reassigned before it, its result from the top of the call."""
        changed = sorted(names_in(test) & assigned)
        if not changed:
            return test
        positive = negation(test) if is_absence(test) else test
        for negative in (syntax.UnaryOp("not", test), negation(test)):
            positive = negative if negative in self.asked_first else positive
        if positive not in self.asked_first:
            used = set[str]().union(*self.alignment.names.values(), (name.id for name in self.asked_first.values()))
            wanted = [f"with_{changed[0]}", *(f"with_{changed[0]}{number}" for number in range(2, 100))]
            self.asked_first[positive] = syntax.Name(next(name for name in wanted if name not in used))
        known = self.asked_first[positive]
        return known if positive == test else syntax.UnaryOp("not", known)

    # %% Return values

    def returning(
        self, statements: list[syntax.Stmt], returns: list[tuple[syntax.Expr | None, Cases]]
    ) -> list[syntax.Stmt]:
        """Return early where only some cases return a value: ``if labels is not None: return loss, logits``."""
        assigned = {name for names in self.alignment.assigned.values() for name in names}
        left = self.everybody
        while len(returns) > 1:
            tests = self.conditions.of_returns([whose for _, whose in returns], left)
            known = [number for number, test in enumerate(tests) if test is not None]
            number = min(known, key=lambda number: isinstance(tests[number], syntax.UnaryOp), default=None)
            if number is None:
                cases = min(returns[0][1]), min(returns[1][1])
                raise Indistinct(cases, _returned(returns[0][0]), self.conditions.decides(()))
            (value, whose), test = returns.pop(number), tests[number]
            assert test is not None
            returned = syntax.Return(_NONE if value is None else value)
            test = self.known_before(test, assigned)
            last = statements[-1] if statements else None
            if isinstance(last, syntax.If) and last.test == test and not last.orelse:
                statements[-1] = replace(last, body=(*last.body, returned))
            else:
                statements.append(syntax.If(test, (returned,)))
            left -= whose
        return statements


def _branch(test: syntax.Expr, own: list[CaseRow], other: list[CaseRow]) -> syntax.Stmt:
    """An ``if`` statement with what some cases do, and in its other branch what the others do."""
    body, orelse = tuple(row.statement for row in own), tuple(row.statement for row in other)
    if orelse and isinstance(test, syntax.UnaryOp) and test.op == "not":
        return syntax.If(test.operand, orelse, body)
    return syntax.If(test, body, orelse)


def _are_comments(rows: list[CaseRow]) -> bool:
    return all(isinstance(row.statement, syntax.Comment) for row in rows)


def _are_opposite(one: syntax.Expr, other: syntax.Expr) -> bool:
    return negation(one) == other or negation(other) == one


def _returned(value: syntax.Expr | None) -> str:
    return syntax.source(syntax.Return(_NONE if value is None else value))


def _first_line(statement: syntax.Stmt) -> Any:
    match statement:
        case syntax.If(test) | syntax.For(test):
            return test
        case syntax.FunctionDef(name):
            return syntax.Name(name)
        case syntax.Comment():
            return syntax.Pass()
    return statement
