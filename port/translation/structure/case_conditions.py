"""What tells example calls apart: a test of the original's own, or of what its arguments are."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import code, names_in, worth
from port.translation.ir.source_location import SourceLocation
from port.translation.structure.branches import branches_of
from port.translation.structure.cases import Array, Held, name_of

_UNKNOWN = object()


class CaseConditions:
    """Conditions on a module's arguments.

    Args:
        module: of the original.
        held: what its parameters hold, in each case that calls it.

    Attributes:
        ambiguous: cases that more than one argument would have told from the others, and no line said which.
    """

    def __init__(self, module: Any, held: Mapping[int, Mapping[str, Held]]) -> None:
        self.module, self.held = module, held
        self.ambiguous: set[frozenset[int]] = set()
        self._branches = branches_of(type(module).forward)

    def test(
        self,
        whose: frozenset[int],
        among: frozenset[int] | None = None,
        lines: Sequence[SourceLocation | None] = (),
    ) -> syntax.Expr | None:
        """The condition that holds in just these cases; None where no argument tells them from the others.

        Args:
            whose: the cases.
            among: those that it has to tell apart; by default all.
            lines: of the original, where what these cases do may stand.
        """
        wanted = {case: case in whose for case in self.held if among is None or case in among}
        for line in lines:
            if line is not None and (made := self._enclosing(line, wanted)) is not None:
                return made
        found = [made for branch in self._branches.tests if (made := self._of_original(branch, wanted)) is not None]
        names = [name for name in self.held[min(self.held)] if all(name in held for held in self.held.values())]
        found += [made for name in names if (made := self._of_argument(name, wanted)) is not None]
        if len({frozenset(names_in(made)) for made in found}) > 1:
            self.ambiguous.add(whose)
        return found[0] if found else None

    def of_returns(self, whose: frozenset[int], among: frozenset[int]) -> syntax.Expr | None:
        """The condition of what just these cases give: of a line that returns, if there is one."""
        return self.test(whose, among, self._branches.returns)

    def branches_around(self, line: SourceLocation | None) -> tuple[Any, ...]:
        """What is the same for lines that stand in the same branches of the original's."""
        return () if line is None else tuple((id(test), holds) for test, holds in self._branches.around(line))

    # %% The original's own

    def _enclosing(self, line: SourceLocation, wanted: Mapping[int, bool]) -> syntax.Expr | None:
        """The branches that a line stands in, the innermost first, as many as it takes to tell the cases apart."""
        tests: list[tuple[ast.expr, bool]] = []
        for test, holds in self._branches.around(line):
            tests.insert(0, (test, holds))
            if self._tell(tests, wanted):
                said = [self._said(each, negated=not sign) for each, sign in tests]
                kept = tuple(each for each in said if each is not None)
                return None if not kept else kept[0] if len(kept) == 1 else syntax.BoolOp("and", kept)
        return None

    def _tell(self, tests: Sequence[tuple[ast.expr, bool]], wanted: Mapping[int, bool]) -> bool:
        def holds(case: int) -> Any:
            worths = [(self._worth(test, self.held[case]), sign) for test, sign in tests]
            if any(value is not _UNKNOWN and bool(value) != sign for value, sign in worths):
                return False
            return _UNKNOWN if any(value is _UNKNOWN for value, _ in worths) else True

        return all(holds(case) is expected for case, expected in wanted.items())

    def _of_original(self, tree: ast.expr, wanted: Mapping[int, bool]) -> syntax.Expr | None:
        for sign in (True, False):
            if self._tell([(tree, sign)], wanted):
                return self._said(tree, negated=not sign)
        return None

    def _worth(self, tree: ast.expr, held: Mapping[str, Held]) -> Any:
        """What a test comes to in a case."""
        match tree:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return _value(held.get(name))
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                value = vars(self.module).get(name, _UNKNOWN)
                return value if isinstance(value, bool | int | float | str | None) else _UNKNOWN
            case ast.Attribute(value=ast.Name(id=name), attr="ndim"):
                return _rank(held.get(name))
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="dim"), args=[]):
                return _rank(held.get(name))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                value = self._worth(operand, held)
                return _UNKNOWN if value is _UNKNOWN or isinstance(value, Array) else not value
            case ast.BoolOp(op=operator, values=values):
                return self._worth_of_several(isinstance(operator, ast.And), values, held)
            case ast.Compare(left=left, ops=[sign], comparators=[right]):
                return _compared(sign, self._worth(left, held), self._worth(right, held))
            case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
                inside = tuple(self._worth(item, held) for item in items)
                return _UNKNOWN if any(item is _UNKNOWN or isinstance(item, Array) for item in inside) else inside
        return _UNKNOWN

    def _worth_of_several(self, every: bool, values: Sequence[ast.expr], held: Mapping[str, Held]) -> Any:
        found = [self._worth(value, held) for value in values]
        known = [bool(value) for value in found if value is not _UNKNOWN and not isinstance(value, Array)]
        if every and not all(known):
            return False
        if not every and any(known):
            return True
        return every if len(known) == len(found) else _UNKNOWN

    def _said(self, tree: ast.expr, *, negated: bool) -> syntax.Expr | None:
        """A test in the written call's terms; None where it reads what that does not have."""
        made = _InOurTerms(self).visit(ast.parse(ast.unparse(tree), mode="eval").body)
        if isinstance(made, ast.Constant):
            return None
        try:
            said = syntax.parsed(ast.unparse(made))
        except (SyntaxError, KeyError):
            return None
        return negation(said) if negated else said

    # %% Of one argument

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
        ranks = {value.rank if isinstance(value, Array) else None for value in mine}
        if all(isinstance(value, Array) and value.rank is not None for value in mine | others) and len(ranks) == 1:
            return code("p.ndim == rank", p=own, rank=ranks.pop())
        return None


class _InOurTerms(ast.NodeTransformer):
    """Writes a test of the original's as the written call says it."""

    def __init__(self, conditions: CaseConditions) -> None:
        self.conditions = conditions

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name(name_of(node.id).id)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        match node:
            case ast.Attribute(value=ast.Name(id="self")):
                return ast.Constant(self.conditions._worth(node, {}))
        return ast.Attribute(self.visit(node.value), node.attr)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        assert isinstance(node.func, ast.Attribute)
        return ast.Attribute(self.visit(node.func.value), "ndim")

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        neutral = isinstance(node.op, ast.And)
        values = [self.visit(value) for value in node.values]
        # A switch of the module's is what it is: what is left is a test of the arguments.
        kept = [value for value in values if not (isinstance(value, ast.Constant) and bool(value.value) is neutral)]
        return ast.BoolOp(node.op, kept) if len(kept) > 1 else kept[0] if kept else ast.Constant(neutral)


def negation(test: syntax.Expr) -> syntax.Expr:
    """A test that holds where another does not."""
    match test:
        case syntax.UnaryOp("not", operand):
            return operand
        case syntax.Compare(left, (sign,), right) if sign in _OPPOSITES:
            return syntax.Compare(left, (_OPPOSITES[sign],), right)
    return syntax.UnaryOp("not", test)


_OPPOSITES = {"is": "is not", "is not": "is", "==": "!=", "!=": "==", "in": "not in", "not in": "in"}
_SIGNS: dict[type[ast.cmpop], Any] = {
    ast.Eq: lambda one, other: one == other,
    ast.NotEq: lambda one, other: one != other,
    ast.Is: lambda one, other: one is other,
    ast.IsNot: lambda one, other: one is not other,
    ast.In: lambda one, other: one in other,
    ast.NotIn: lambda one, other: one not in other,
    ast.Lt: lambda one, other: one < other,
    ast.LtE: lambda one, other: one <= other,
    ast.Gt: lambda one, other: one > other,
    ast.GtE: lambda one, other: one >= other,
}


def _compared(sign: ast.cmpop, one: Any, other: Any) -> Any:
    if one is _UNKNOWN or other is _UNKNOWN:
        return _UNKNOWN
    if isinstance(one, Array) or isinstance(other, Array):
        # An array is an object, and no other constant is that object; its numbers are not known.
        return isinstance(sign, ast.IsNot) if isinstance(sign, ast.Is | ast.IsNot) else _UNKNOWN
    try:
        return _SIGNS[type(sign)](one, other)
    except TypeError:
        return _UNKNOWN


def _value(held: Held | None) -> Any:
    if held is None:
        return _UNKNOWN
    if isinstance(held, Array):
        return held
    try:
        return worth(held)
    except ValueError:
        return _UNKNOWN


def _rank(held: Held | None) -> Any:
    return held.rank if isinstance(held, Array) and held.rank is not None else _UNKNOWN


def _of_constants(own: syntax.Name, mine: set[Held], others: set[Held]) -> syntax.Expr | None:
    """``causal``, ``mode == "mean"``, ``mode != "none"``."""
    one = mine.pop() if len(mine) == 1 else None
    other = others.pop() if len(others) == 1 else None
    if {one, other} == {syntax.Const(True), syntax.Const(False)}:
        return own if one == syntax.Const(True) else syntax.UnaryOp("not", own)
    if isinstance(one, syntax.Const):
        return syntax.Compare(own, ("==",), (one,))
    return syntax.Compare(own, ("!=",), (other,)) if isinstance(other, syntax.Const) else None
