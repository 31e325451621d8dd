"""Conditions that distinguish example calls: a test of the original, or one on the arguments."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import code, worth
from port.translation.ir.source_location import SourceLocation
from port.translation.structure.branches import branches_of
from port.translation.structure.cases import ArrayArgument, Held, name_of

_UNKNOWN = object()
_MANY = 10
"""With more example calls than this, no condition on two arguments is tried."""


class CaseConditions:
    """Conditions on the arguments of a module's function.

    Args:
        module: the original's module.
        function: its ``forward``, or another method.
        held: for each case that calls the function, the values of its parameters.
    """

    def __init__(self, module: Any, function: Any, held: Mapping[int, Mapping[str, Held]]) -> None:
        self.module, self.held = module, held
        self._branches = branches_of(function)

    def test(
        self,
        whose: frozenset[int],
        among: frozenset[int] | None = None,
        lines: Sequence[SourceLocation | None] = (),
        *,
        of_two: bool = True,
    ) -> syntax.Expr | None:
        """Find a condition that holds in exactly these cases; None where no argument distinguishes them.

        Args:
            whose: the cases in which it holds.
            among: the cases to distinguish; by default all.
            lines: the original's lines that may contain what these cases do.
            of_two: whether it may combine conditions on two arguments.
        """
        wanted = self._wanted(whose, among)
        if (made := self._of_lines(lines, wanted)) is not None:
            return made
        tests = [test.expression for test in self._branches.tests if test.expression is not None]
        found = [made for test in tests if (made := self._of_original(test, wanted)) is not None]
        names = [name for name in self.held[min(self.held)] if all(name in held for held in self.held.values())]
        found += [made for name in names if (made := self._of_argument(name, wanted)) is not None]
        return found[0] if found else self._of_two(whose, wanted) if of_two else None

    def _wanted(self, whose: frozenset[int], among: frozenset[int] | None) -> dict[int, bool]:
        return {case: case in whose for case in self.held if among is None or case in among}

    def _of_lines(self, lines: Sequence[SourceLocation | None], wanted: Mapping[int, bool]) -> syntax.Expr | None:
        known = (self._enclosing(line, wanted) for line in lines if line is not None)
        return next((made for made in known if made is not None), None)

    def of_returns(self, groups: Sequence[frozenset[int]], among: frozenset[int]) -> list[syntax.Expr | None]:
        """The condition of each group's return value: that of a return statement, if there is one."""
        lines = self._branches.returns
        tests = [self._of_lines(lines, self._wanted(whose, among)) for whose in groups]
        for of_two in (False, True):
            if not any(tests):
                tests = [self.test(whose, among, of_two=of_two) for whose in groups]
        return tests

    def decides(self, lines: Sequence[SourceLocation | None]) -> str:
        """The original's test that decides whether some lines run, with its line; empty where there is none."""
        for line in lines or self._branches.returns:
            for test, _ in [] if line is None else self._branches.around(line):
                return f"`if {test.text}` ({self._branches.file}:{test.line})"
        return ""

    def branches_around(self, line: SourceLocation | None) -> tuple[Any, ...]:
        """A key that is equal for lines in the same branches of the original."""
        return () if line is None else tuple((test.line, holds) for test, holds in self._branches.around(line))

    # %% Tests of the original

    def _enclosing(self, line: SourceLocation, wanted: Mapping[int, bool]) -> syntax.Expr | None:
        """The tests of the branches around a line, innermost first, as many as needed to distinguish the cases."""
        tests: list[tuple[syntax.Expr, bool]] = []
        for test, holds in self._branches.around(line):
            if test.expression is not None:
                tests.insert(0, (test.expression, holds))
            if self._tell(tests, wanted):
                said = [self._said(each, negated=not sign) for each, sign in tests]
                kept = tuple(each for each in said if each is not None)
                return None if not kept else kept[0] if len(kept) == 1 else syntax.BoolOp("and", kept)
        return None

    def _tell(self, tests: Sequence[tuple[syntax.Expr, bool]], wanted: Mapping[int, bool]) -> bool:
        def holds(case: int) -> Any:
            worths = [(self._worth(test, self.held[case]), sign) for test, sign in tests]
            if any(_is_known(value) and bool(value) != sign for value, sign in worths):
                return False
            return True if all(_is_known(value) for value, _ in worths) else _UNKNOWN

        return all(holds(case) is expected for case, expected in wanted.items())

    def _of_original(self, test: syntax.Expr, wanted: Mapping[int, bool]) -> syntax.Expr | None:
        for sign in (True, False):
            if self._tell([(test, sign)], wanted):
                return self._said(test, negated=not sign)
        return None

    def _worth(self, test: syntax.Expr, held: Mapping[str, Held]) -> Any:
        """The value of a test in a case."""
        match test:
            case syntax.Const(value):
                return value
            case syntax.Name(name):
                return _value(held.get(name))
            case syntax.Attribute(syntax.Name("self"), name):
                value = vars(self.module).get(name, _UNKNOWN)
                return value if isinstance(value, bool | int | float | str | None) else _UNKNOWN
            case syntax.Attribute(syntax.Name(name), "ndim"):
                return _rank(held.get(name))
            case syntax.Call(syntax.Attribute(syntax.Name(name), "dim"), ()):
                return _rank(held.get(name))
            case syntax.UnaryOp("not", operand):
                value = self._worth(operand, held)
                return not value if _is_known(value) else _UNKNOWN
            case syntax.BoolOp(word, values):
                return _worth_of_several(word == "and", [self._worth(value, held) for value in values])
            case syntax.Compare(left, (sign,), (right,)):
                return _compared(sign, self._worth(left, held), self._worth(right, held))
            case syntax.Tuple(items) | syntax.List(items):
                inside = tuple(self._worth(item, held) for item in items)
                return inside if all(map(_is_known, inside)) else _UNKNOWN
        return _UNKNOWN

    def _said(self, test: syntax.Expr, *, negated: bool) -> syntax.Expr | None:
        """Write a test in terms of the written call's arguments; None where it does not depend on any."""
        made = syntax.transformed(test, self._in_our_terms)
        if isinstance(made, syntax.Const):
            return None
        return negation(made) if negated else made

    def _in_our_terms(self, node: syntax.Node) -> syntax.Node:
        match node:
            case syntax.Attribute(syntax.Name("self_"), _):
                # A module's switch is constant: what remains is a test of the arguments.
                return syntax.Const(self._worth(syntax.Attribute(syntax.Name("self"), node.attr), {}))
            case syntax.Name(name):
                return name_of(name)
            case syntax.Call(syntax.Attribute(array, "dim"), ()):
                return syntax.Attribute(array, "ndim")
            case syntax.BoolOp(word, values):
                neutral = word == "and"
                kept = [value for value in values if not _is_constant(value, neutral)]
                return syntax.BoolOp(word, tuple(kept)) if len(kept) > 1 else kept[0] if kept else syntax.Const(neutral)
        return node

    # %% Tests of arguments

    def _of_two(self, whose: frozenset[int], wanted: Mapping[int, bool]) -> syntax.Expr | None:
        """Two conditions that hold together in exactly these cases."""
        every = list(wanted)
        if len(every) > _MANY:
            return None
        known: dict[frozenset[int], syntax.Expr] = {}
        for length in range(1, len(every)):
            for some in map(frozenset, combinations(every, length)):
                if some > whose and (made := self._of_one(some, every)) is not None:
                    known[some] = made
        for one, other in combinations(known, 2):
            if one & other == whose:
                return syntax.BoolOp("and", (known[one], known[other]))
        return None

    def _of_one(self, whose: frozenset[int], every: Sequence[int]) -> syntax.Expr | None:
        wanted = {case: case in whose for case in every}
        names = [name for name in self.held[every[0]] if all(name in self.held[case] for case in every)]
        return next((made for name in names if (made := self._of_argument(name, wanted)) is not None), None)

    def _of_argument(self, name: str, wanted: Mapping[int, bool]) -> syntax.Expr | None:
        held = {case: self.held[case][name] for case in wanted}
        own = name_of(name)
        is_none = {case: value == syntax.Const(None) for case, value in held.items()}
        if any(is_none.values()) and not all(is_none.values()):
            for expected, text in ((True, "p is None"), (False, "p is not None")):
                if all((is_none[case] is expected) == wanted[case] for case in wanted):
                    return code(text, p=own)
        mine = {value for case, value in held.items() if wanted[case]}
        others = {value for case, value in held.items() if not wanted[case]}
        if mine & others:
            return None
        if all(isinstance(value, syntax.Const) for value in mine | others):
            return _of_constants(own, mine, others)
        ranks = {value.rank if isinstance(value, ArrayArgument) else None for value in mine}
        if (
            all(isinstance(value, ArrayArgument) and value.rank is not None for value in mine | others)
            and len(ranks) == 1
        ):
            return code("p.ndim == rank", p=own, rank=ranks.pop())
        return None


def negation(test: syntax.Expr) -> syntax.Expr:
    """The negation of a test."""
    match test:
        case syntax.UnaryOp("not", operand):
            return operand
        case syntax.Compare(left, (sign,), right) if sign in _OPPOSITES:
            return syntax.Compare(left, (_OPPOSITES[sign],), right)
    return syntax.UnaryOp("not", test)


def is_absence(test: syntax.Expr) -> bool:
    """Whether a test is ``… is None``."""
    return isinstance(test, syntax.Compare) and test.ops == ("is",) and test.comparators == (syntax.Const(None),)


_OPPOSITES = {"is": "is not", "is not": "is", "==": "!=", "!=": "==", "in": "not in", "not in": "in"}
_SIGNS: dict[str, Any] = {
    "==": operator.eq,
    "!=": operator.ne,
    "is": operator.is_,
    "is not": operator.is_not,
    "in": lambda one, other: one in other,
    "not in": lambda one, other: one not in other,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _is_known(value: Any) -> bool:
    """Whether a value is a known constant; an array's values are not known."""
    return value is not _UNKNOWN and not isinstance(value, ArrayArgument)


def _is_constant(test: syntax.Expr, truth: bool) -> bool:
    return isinstance(test, syntax.Const) and bool(test.value) is truth


def _worth_of_several(every: bool, found: Sequence[Any]) -> Any:
    known = [bool(value) for value in found if _is_known(value)]
    if every and not all(known):
        return False
    if not every and any(known):
        return True
    return every if len(known) == len(found) else _UNKNOWN


def _compared(sign: str, one: Any, other: Any) -> Any:
    if one is _UNKNOWN or other is _UNKNOWN:
        return _UNKNOWN
    if isinstance(one, ArrayArgument) or isinstance(other, ArrayArgument):
        # An array is an object, and no constant is the same object.
        return sign == "is not" if sign in ("is", "is not") else _UNKNOWN
    try:
        return _SIGNS[sign](one, other)
    except TypeError:
        return _UNKNOWN


def _value(held: Held | None) -> Any:
    if held is None:
        return _UNKNOWN
    if isinstance(held, ArrayArgument):
        return held
    try:
        return worth(held)
    except ValueError:
        return _UNKNOWN


def _rank(held: Held | None) -> Any:
    return held.rank if isinstance(held, ArrayArgument) and held.rank is not None else _UNKNOWN


def _of_constants(own: syntax.Name, mine: set[Held], others: set[Held]) -> syntax.Expr | None:
    """Write ``causal``, ``mode == "mean"`` or ``mode != "none"``."""
    one = mine.pop() if len(mine) == 1 else None
    other = others.pop() if len(others) == 1 else None
    if {one, other} == {syntax.Const(True), syntax.Const(False)}:
        return own if one == syntax.Const(True) else syntax.UnaryOp("not", own)
    if isinstance(one, syntax.Const):
        return syntax.Compare(own, ("==",), (one,))
    return syntax.Compare(own, ("!=",), (other,)) if isinstance(other, syntax.Const) else None
