"""A list that grows from call to call, as one list that is appended to."""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from collections import Counter

_FEWEST = 3


def grown(statements: list[ast.stmt], cls: type, taken: set[str]) -> list[ast.stmt]:
    """``features.append(self.layer2(features))`` for ``y = self.layer2([x])``, ``z = self.layer3([x, y])``, …

    Args:
        statements: of a body, what it returns included.
        cls: the original's, whose ``forward`` may call the list by a name.
        taken: names that stand for something else.
    """
    with_lists = [number for number, statement in enumerate(statements) if _has_list(statement)]
    for start in with_lists[: 1 - _FEWEST]:
        growing = _Growing(list_name(cls, taken))
        made = [step for statement in statements[start:] for step in growing.taken_in(copy.deepcopy(statement))]
        if not growing.broken and growing.steps >= _FEWEST:
            return [*statements[:start], *_appended(made, growing.name)]
    return statements


def _has_list(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.List) for node in ast.walk(statement))


def list_name(cls: type, taken: set[str]) -> str:
    """What the original's ``forward`` calls the only list that it appends to; ``collected`` where that is not told."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls.forward)))  # type: ignore[attr-defined]
    except (OSError, TypeError, SyntaxError, AttributeError):
        tree = ast.Module([], [])
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append")):
                found.add(name)
    name = found.pop() if len(found) == 1 else "collected"
    while name in taken:
        name = f"{name}_"
    return name


class _Growing(ast.NodeTransformer):
    """Goes through statements with what the list holds by then.

    Attributes:
        steps: how many lists it stands for.
        broken: whether something does not fit: a shorter list later on, or a name that is given anew.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.holds: list[str] = []
        self.before: list[ast.stmt] = []
        self.steps = 0
        self.broken = False

    def taken_in(self, statement: ast.stmt) -> list[ast.stmt]:
        """A statement with the list in its place, and before it what makes the list so."""
        self.before = []
        if isinstance(statement, ast.Return) and isinstance(statement.value, ast.List):
            statement.value = self._list(statement.value)
        else:
            statement = self.visit(statement)
        bound = {name.id for name in _bound(statement)}
        self.broken |= bool(bound & {*self.holds, self.name})
        # What is only made in a branch is not there before it.
        self.broken |= bool(self.before) and not isinstance(statement, ast.Assign | ast.Expr | ast.Return)
        return [*self.before, statement]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        # A list that is kept, and not given to a call, must not grow later on.
        node.args = [self._list(item) for item in node.args]
        return self.generic_visit(node)

    def _list(self, node: ast.expr) -> ast.expr:
        """The list, if this is what it holds by now, or that and more."""
        if not isinstance(node, ast.List) or not node.elts:
            return node
        names = [item.id if isinstance(item, ast.Name) else "" for item in node.elts]
        if not self.holds and all(names):
            self.before.append(ast.Assign([ast.Name(self.name)], node, lineno=0))
            self.holds = names
            self.steps += 1
            return ast.Name(self.name)
        if not self.holds or names[: len(self.holds)] != self.holds:
            self.broken |= bool({*self.holds} & {*names})
            return node
        more = node.elts[len(self.holds) :]
        for item in more:
            self.before.append(_append(self.name, self.visit(item)))
            self.holds.append(names[len(self.holds)])
        self.steps += bool(more)
        return ast.Name(self.name)


def _append(name: str, item: ast.expr) -> ast.stmt:
    return ast.Expr(ast.Call(ast.Attribute(ast.Name(name), "append"), [item], []))


def _appended(statements: list[ast.stmt], name: str) -> list[ast.stmt]:
    """``features.append(f(x))`` for ``y = f(x)``, ``features.append(y)``, where nothing else reads ``y``."""
    reads = Counter(node.id for statement in statements for node in ast.walk(statement) if isinstance(node, ast.Name))
    reads -= Counter(target.id for statement in statements for target in _bound(statement))
    made: list[ast.stmt] = []
    for statement in statements:
        match made[-1:], statement:
            case (
                [ast.Assign(targets=[ast.Name(id=of)], value=value)],
                ast.Expr(ast.Call(ast.Attribute(ast.Name(id=to), "append"), [ast.Name(id=item)])),
            ) if item == of and to == name and reads[of] == 1:
                made[-1] = _append(name, value)
            case _:
                made.append(statement)
    return made


def _bound(statement: ast.stmt) -> list[ast.Name]:
    """The names that a statement, and those inside it, give something to."""
    targets: list[ast.expr] = []
    for node in ast.walk(statement):
        match node:
            case ast.Assign():
                targets += node.targets
            case ast.AnnAssign() | ast.AugAssign() | ast.For() | ast.NamedExpr() | ast.comprehension():
                targets.append(node.target)
    return [node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
