"""Merge the statements of several instances; what only some do goes under a condition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.structure.anti_unify import Differ, Holes, PartialHoles, numbered, unified, without_numbers
from port.translation.structure.argument import Argument


class Conditions:
    """Conditions that distinguish instances.

    Args:
        groups: groups of forms.
        modules: arguments that only some instances have.
        flags: collects the original's flags, rates and words that conditions test.
        holes: the numbers in which they differ; one may be 0 in some instances.
    """

    def __init__(self, groups: list[list[Any]], modules: list[Any], flags: list[Any], holes: Holes) -> None:
        self.groups, self.modules, self.flags, self.holes = groups, modules, flags, holes

    def test(self, whose: set[int]) -> syntax.Expr:
        """The condition that holds for exactly these groups.

        Raises:
            Differ: nothing distinguishes them from the others.
        """
        mine = {form.path for number in whose for form in self.groups[number]}
        for argument in self.modules:
            present = {path for path, value in argument.values.items() if not _is_none(value)}
            if present == mine:
                return code(f"self.{argument.name} is not None")
            if set(argument.values) - present == mine:
                return code(f"self.{argument.name} is None")
        forms = [form for group in self.groups for form in group]
        for condition_on in (_by_flag, _by_zero, _by_word):
            for name in vars(forms[0].module):
                values = {form.path: vars(form.module).get(name) for form in forms}
                text = None if name == "training" or name.startswith("_") else condition_on(values, mine)
                if text is not None:
                    self._add(name, values)
                    return code(text.format(f"self.{name}"))
        for number, hole in enumerate(self.holes.found):
            text = _by_zero({form.path: value for form, value in zip(forms, hole.values, strict=True)}, mine)
            if text is not None:
                return code(text.format("hole"), hole=numbered(number))
        raise Differ

    def _add(self, name: str, values: dict[str, Any]) -> None:
        if all(flag.name != name for flag in self.flags):
            constants: dict[str, syntax.Expr] = {path: syntax.Const(flag) for path, flag in values.items()}
            self.flags.append(Argument(name, constants, False, kept=True))


def _by_flag(values: dict[str, Any], mine: set[str]) -> str | None:
    true = {path for path, value in values.items() if value}
    if mine in (true, set(values) - true) and all(isinstance(value, bool) for value in values.values()):
        return "{}" if mine == true else "not {}"
    return None


def _by_zero(values: dict[str, Any], mine: set[str]) -> str | None:
    """Test a rate or a length that is 0 where something is omitted."""
    if any(type(value) not in (int, float) or value < 0 for value in values.values()):
        return None
    above = {path for path, value in values.items() if value > 0}
    if mine in (above, set(values) - above):
        return "{} > 0" if mine == above else "{} == 0"
    return None


def _by_word(values: dict[str, Any], mine: set[str]) -> str | None:
    """Test a word that selects what is done."""
    if not all(isinstance(value, str) for value in values.values()):
        return None
    words, others = {values[path] for path in mine}, {value for path, value in values.items() if path not in mine}
    if len(words) == 1 and not words & others:
        return f"{{}} == {words.pop()!r}"
    return f"{{}} != {others.pop()!r}" if len(others) == 1 and not words & others else None


def merged_statements(groups: list[list[Any]], conditions: Conditions, holes: Holes) -> list[syntax.Stmt]:
    """Merge the statements of all groups.

    Args:
        groups: groups of forms; the forms of a group have equal statements up to numbers.
        conditions: distinguishes the groups.
        holes: collects the numbers that differ.

    Raises:
        Differ: only some instances have a statement, and no argument distinguishes them.
    """
    counts = [len(group) for group in groups]
    rows: list[tuple[list[list[syntax.Stmt]], set[int]]] = []  # instances' statements by group; the groups
    for number, group in enumerate(groups):
        own = [[form.body.statements[k] for form in group] for k in range(len(group[0].body.statements))]
        rows = aligned(rows, own, number)
    statements: list[syntax.Stmt] = []
    for made, whose in rows:
        trees = [tree for together in made for tree in together]
        theirs = holes
        if len(whose) < len(counts):
            places = [place for place, number in enumerate(_numbers(counts)) if number in whose]
            theirs = PartialHoles(holes, places, sum(counts))
        statement = unified(trees, theirs, ("",))
        if len(whose) == len(counts):
            statements.append(statement)
        else:
            _append(statements, conditions.test(whose), conditions, set(range(len(groups))) - whose, statement)
    return statements


def _numbers(counts: list[int]) -> list[int]:
    """The group number of each instance."""
    return [number for number, count in enumerate(counts) for _ in range(count)]


def alike(one: Sequence[syntax.Stmt], other: Sequence[syntax.Stmt]) -> bool:
    """Whether two lists of statements are equal up to numbers."""
    return list(map(_abstract, one)) == list(map(_abstract, other))


def aligned(
    rows: list[tuple[list[list[syntax.Stmt]], set[int]]], own: list[list[syntax.Stmt]], number: int
) -> list[tuple[list[list[syntax.Stmt]], set[int]]]:
    """Align rows of statements with those of one more group, merging as many as possible.

    Args:
        rows: a statement of each instance of the groups that have it, by group, and the numbers of these groups.
        own: for each statement of the group, the version of each instance.
        number: the group's number.
    """
    before = [_abstract(made[0][0]) for made, _ in rows]
    after = [_abstract(statements[0]) for statements in own]
    if not rows:
        return [([statements], {number}) for statements in own]
    result: list[tuple[list[list[syntax.Stmt]], set[int]]] = []
    for kind, i, j, k, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            for (made, whose), statements in zip(rows[i:j], own[k:end], strict=True):
                result.append(([*made, statements], whose | {number}))
        else:
            result += rows[i:j]
            result += [([statements], {number}) for statements in own[k:end]]
    return result


def _abstract(tree: syntax.Stmt) -> syntax.Stmt:
    return without_numbers(tree, none_too=True)


def _is_none(value: syntax.Expr) -> bool:
    return value == syntax.Const(None)


def _append(
    statements: list[syntax.Stmt], test: syntax.Expr, conditions: Conditions, others: set[int], statement: syntax.Stmt
) -> None:
    """Append a statement under its condition, in the previous ``if`` or its other branch where that fits."""
    last = statements[-1] if statements else None
    if isinstance(last, syntax.If):
        if last.test == test and not last.orelse:
            statements[-1] = replace(last, body=(*last.body, statement))
            return
        if last.test == conditions.test(others):
            statements[-1] = replace(last, orelse=(*last.orelse, statement))
            return
    statements.append(syntax.If(test, (statement,)))
