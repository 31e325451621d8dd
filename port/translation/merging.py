"""The statements of several instances as one list: what only some do stands behind a condition."""

from __future__ import annotations

import ast
import copy
from difflib import SequenceMatcher
from typing import Any

from port.translation.unifying import Differ, Holes, PartOfThem, unified


class Conditions:
    """What tells some instances from the others.

    Args:
        groups: of forms.
        modules: arguments that some instances are given and others not.
        flags: filled with the original's own flags that are asked for.
    """

    def __init__(self, groups: list[list[Any]], modules: list[Any], flags: list[Any]) -> None:
        self.groups, self.modules, self.flags = groups, modules, flags

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
        for name in vars(forms[0].module):
            told = {form.path: vars(form.module).get(name) for form in forms}
            if name == "training" or name.startswith("_") or not all(isinstance(flag, bool) for flag in told.values()):
                continue
            true = {path for path, flag in told.items() if flag}
            if mine in (true, set(told) - true):
                self._add(name, told)
                return _expression(f"self.{name}" if mine == true else f"not self.{name}")
        raise Differ

    def _add(self, name: str, told: dict[str, Any]) -> None:
        from port.translation.folding import Argument

        if all(flag.name != name for flag in self.flags):
            values: dict[str, ast.expr] = {path: ast.Constant(flag) for path, flag in told.items()}
            self.flags.append(Argument(name, values, False, kept=True))


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
