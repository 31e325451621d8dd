"""Write a list that grows from call to call as one list with appends."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import replace
from typing import Any, TypeVar

from port.translation.frontend.construction.function_trees import source_tree
from port.translation.ir import syntax

N = TypeVar("N", bound=syntax.Node)

_FEWEST = 3


def grown(statements: list[syntax.Stmt], original: Any, taken: set[str], fewest: int = _FEWEST) -> list[syntax.Stmt]:
    """Write ``features.append(self.layer2(features))`` for ``y = self.layer2([x])`` and so on.

    The list grows by one item from call to call: ``z = self.layer3([x, y])``.

    Args:
        statements: a body's statements, including the return.
        original: the original's function, which may have a name for the list.
        taken: names that are already in use.
        fewest: how often the list has to grow and be read to be written this way; two or more.
    """
    with_lists = [number for number, statement in enumerate(statements) if _has_list(statement)]
    for start in with_lists[: 1 - fewest]:
        growing = _Growing(list_name(original, taken))
        made = [step for statement in statements[start:] for step in growing.taken_in(statement)]
        if not growing.broken and growing.steps >= fewest:
            return [*statements[:start], *_appended(made, growing.name)]
    return statements


def _has_list(statement: syntax.Stmt) -> bool:
    return any(isinstance(node, syntax.List) for node in syntax.walk(statement))


def list_name(original: Any, taken: set[str]) -> str:
    """The original's name of the only list that a function appends to; ``collected`` where that is unclear."""
    name = appended_list(original, taken)
    return _free("collected", taken) if name is None else name


def appended_list(original: Any, taken: set[str]) -> str | None:
    """The original's name of the only list that a function appends to; None where there is no such list."""
    found = set()
    for node in ast.walk(source_tree(original)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append")):
                found.add(name)
    return _free(found.pop(), taken) if len(found) == 1 else None


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name = f"{name}_"
    return name


class _Growing:
    """Goes through statements, tracking what the list contains.

    Attributes:
        steps: how many list displays it replaces.
        broken: whether something does not fit: a shorter list later on, or a name that is reassigned.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.holds: list[str] = []
        self.before: list[syntax.Stmt] = []
        self.steps = 0
        self.broken = False

    def taken_in(self, statement: syntax.Stmt) -> list[syntax.Stmt]:
        """Use the list in a statement; return it after the statements that append to the list."""
        self.before = []
        match statement:
            case syntax.Return(syntax.List() as returned):
                statement = syntax.Return(self._list(returned))
            case _:
                statement = self._within(statement)
        bound = _bound(statement)
        self.broken |= bool(bound.keys() & {*self.holds, self.name})
        # A value computed in a branch does not exist before the branch.
        simple = isinstance(statement, syntax.Assign | syntax.ExprStmt | syntax.Return)
        self.broken |= bool(self.before) and not simple
        return [*self.before, statement]

    def _within(self, node: N) -> N:
        """Replace list displays by the list where they are passed to a call."""
        if isinstance(node, syntax.Call):
            # A list that is stored rather than passed to a call must not grow later.
            node = replace(node, args=tuple(map(self._list, node.args)))
        return syntax.with_parts(node, self._within)

    def _list(self, node: syntax.Expr) -> syntax.Expr:
        """Replace a list display that starts with the list's current items by the list."""
        if not isinstance(node, syntax.List) or not node.elts:
            return node
        names = [item.id if isinstance(item, syntax.Name) else "" for item in node.elts]
        if not self.holds and all(names):
            self.before.append(syntax.Assign(syntax.Name(self.name), node))
            self.holds = names
            self.steps += 1
            return syntax.Name(self.name)
        if not self.holds or names[: len(self.holds)] != self.holds:
            self.broken |= bool({*self.holds} & {*names})
            return node
        more = node.elts[len(self.holds) :]
        for item in more:
            self.before.append(_append(self.name, self._within(item)))
            self.holds.append(names[len(self.holds)])
        self.steps += bool(more)
        return syntax.Name(self.name)


def _append(name: str, item: syntax.Expr) -> syntax.Stmt:
    return syntax.ExprStmt(syntax.Call(syntax.Attribute(syntax.Name(name), "append"), (item,)))


def _appended(statements: list[syntax.Stmt], name: str) -> list[syntax.Stmt]:
    """Write ``features.append(f(x))`` for ``y = f(x)``, ``features.append(y)``, where nothing else reads ``y``."""
    reads = Counter(node.id for node in syntax.walk(*statements) if isinstance(node, syntax.Name))
    for statement in statements:
        reads -= _bound(statement)
    made: list[syntax.Stmt] = []
    for statement in statements:
        match made[-1:], statement:
            case (
                [syntax.Assign(syntax.Name(of), value)],
                syntax.ExprStmt(syntax.Call(syntax.Attribute(syntax.Name(to), "append"), (syntax.Name(item),))),
            ) if item == of and to == name and reads[of] == 1:
                made[-1] = _append(name, value)
            case _:
                made.append(statement)
    return made


def _bound(statement: syntax.Stmt) -> Counter[str]:
    """The names that a statement, and those inside it, assign, with counts."""
    targets: list[syntax.Expr] = []
    for node in syntax.walk(statement):
        match node:
            case syntax.Assign(target) | syntax.AnnAssign(target) | syntax.For(target) | syntax.Comprehension(target):
                targets.append(target)
    return Counter(node.id for node in syntax.walk(*targets) if isinstance(node, syntax.Name))
