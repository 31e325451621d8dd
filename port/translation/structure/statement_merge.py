"""The statements of several instances as one list: what only some do stands behind a condition."""

from __future__ import annotations

import ast
import copy
from difflib import SequenceMatcher
from typing import Any

from port.translation.structure.anti_unify import Differ, Holes, PartOfThem, unified, with_names
from port.translation.structure.argument import Argument


class Conditions:
    """What tells some instances from the others.

    Args:
        groups: of forms.
        modules: arguments that some instances are given and others not.
        flags: filled with the original's own flags, rates and words that are asked for.
        holes: the numbers in which they differ: one may be 0 in some.
    """

    def __init__(self, groups: list[list[Any]], modules: list[Any], flags: list[Any], holes: Holes) -> None:
        self.groups, self.modules, self.flags, self.holes = groups, modules, flags, holes

    def test(self, whose: set[int]) -> ast.expr:
        """The condition that holds for just these groups.

        Raises:
            Differ: nothing tells them from the others.
        """
        mine = {form.path for number in whose for form in self.groups[number]}
        for argument in self.modules:
            present = {path for path, value in argument.values.items() if not _is_none(value)}
            if present == mine:
                return _expression(f"self.{argument.name} is not None")
            if set(argument.values) - present == mine:
                return _expression(f"self.{argument.name} is None")
        forms = [form for group in self.groups for form in group]
        for told_by in (_by_flag, _by_zero, _by_word):
            for name in vars(forms[0].module):
                told = {form.path: vars(form.module).get(name) for form in forms}
                text = None if name == "training" or name.startswith("_") else told_by(told, mine)
                if text is not None:
                    self._add(name, told)
                    return _expression(text.format(f"self.{name}"))
        for number, hole in enumerate(self.holes.found):
            text = _by_zero({form.path: value for form, value in zip(forms, hole.values, strict=True)}, mine)
            if text is not None:
                return with_names(_expression(text.format("hole")), {"hole": ast.Name(f"<{number}>")})  # type: ignore[no-any-return]
        raise Differ

    def _add(self, name: str, told: dict[str, Any]) -> None:
        if all(flag.name != name for flag in self.flags):
            values: dict[str, ast.expr] = {path: ast.Constant(flag) for path, flag in told.items()}
            self.flags.append(Argument(name, values, False, kept=True))


def _by_flag(told: dict[str, Any], mine: set[str]) -> str | None:
    true = {path for path, value in told.items() if value}
    if mine in (true, set(told) - true) and all(isinstance(value, bool) for value in told.values()):
        return "{}" if mine == true else "not {}"
    return None


def _by_zero(told: dict[str, Any], mine: set[str]) -> str | None:
    """A rate or a length that is 0 where something is left out."""
    if any(type(value) not in (int, float) or value < 0 for value in told.values()):
        return None
    above = {path for path, value in told.items() if value > 0}
    if mine in (above, set(told) - above):
        return "{} > 0" if mine == above else "{} == 0"
    return None


def _by_word(told: dict[str, Any], mine: set[str]) -> str | None:
    """A word that says what is to be done."""
    if not all(isinstance(value, str) for value in told.values()):
        return None
    words, others = {told[path] for path in mine}, {value for path, value in told.items() if path not in mine}
    if len(words) == 1 and not words & others:
        return f"{{}} == {words.pop()!r}"
    return f"{{}} != {others.pop()!r}" if len(others) == 1 and not words & others else None


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def merged_statements(groups: list[list[Any]], conditions: Conditions, holes: Holes) -> list[ast.stmt]:
    """One list of statements.

    Args:
        groups: of forms; those of one group have the same statements but for numbers.
        conditions: what tells some instances from others.
        holes: for numbers that differ.

    Raises:
        Differ: a statement that some have and no argument tells which.
    """
    counts = [len(group) for group in groups]
    rows: list[tuple[list[list[ast.stmt]], set[int]]] = []  # a statement of each group's instances; which groups
    for number, group in enumerate(groups):
        own = [[form.body.statements[k] for form in group] for k in range(len(group[0].body.statements))]
        rows = _aligned(rows, own, number)
    statements: list[ast.stmt] = []
    for made, whose in rows:
        trees = [tree for together in made for tree in together]
        theirs = holes
        if len(whose) < len(counts):
            places = [place for place, number in enumerate(_numbers(counts)) if number in whose]
            theirs = PartOfThem(holes, places, sum(counts))
        statement = unified(trees, theirs, ("",))  # type: ignore[arg-type]
        assert isinstance(statement, ast.stmt)
        if len(whose) == len(counts):
            statements.append(statement)
        else:
            _append(statements, conditions.test(whose), conditions, set(range(len(groups))) - whose, statement)
    return statements


def _numbers(counts: list[int]) -> list[int]:
    """The group of each instance."""
    return [number for number, count in enumerate(counts) for _ in range(count)]


def _aligned(
    rows: list[tuple[list[list[ast.stmt]], set[int]]], own: list[list[ast.stmt]], number: int
) -> list[tuple[list[list[ast.stmt]], set[int]]]:
    before = [_abstract(made[0][0]) for made, _ in rows]
    after = [_abstract(statements[0]) for statements in own]
    if not rows:
        return [([statements], {number}) for statements in own]
    result: list[tuple[list[list[ast.stmt]], set[int]]] = []
    for kind, i, j, k, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            for (made, whose), statements in zip(rows[i:j], own[k:end], strict=True):
                result.append(([*made, statements], whose | {number}))
        else:
            result += rows[i:j]
            result += [([statements], {number}) for statements in own[k:end]]
    return result


def _abstract(tree: ast.AST) -> str:
    holes = copy.deepcopy(tree)
    for node in ast.walk(holes):
        if isinstance(node, ast.Constant) and not isinstance(node.value, str):
            node.value = 0
    return ast.dump(holes)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _append(
    statements: list[ast.stmt], test: ast.expr, conditions: Conditions, others: set[int], statement: ast.stmt
) -> None:
    """Take a statement in behind its condition: into the one before, or its other branch, if it fits."""
    last = statements[-1] if statements else None
    if isinstance(last, ast.If):
        if ast.dump(last.test) == ast.dump(test) and not last.orelse:
            last.body.append(statement)
            return
        if ast.dump(last.test) == ast.dump(conditions.test(others)):
            last.orelse.append(statement)
            return
    statements.append(ast.If(test, [statement], []))
