"""Handle a function that both trains and evaluates: tell its calls apart, and specialise it for one of them."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence
from typing import Any

from port.scripts.events import Event
from port.scripts.writing.own_calls import functions_of, is_call_of
from port.scripts.writing.taken_statements import calls_in, holds

_Definition = ast.FunctionDef | ast.AsyncFunctionDef


def calls_with_loader(calls: Sequence[ast.Call], loader: str) -> list[ast.Call]:
    """The calls of a function that take a loader, if there are several calls; otherwise all."""
    if len(calls) < 2:
        return list(calls)
    return [one for one in calls if any(isinstance(a, ast.Name) and a.id == loader for a in _arguments(one))]


def calling_line(tree: ast.Module, where: Event, loader: str) -> Event:
    """A line of a loop over batches; if its function has several calls, the line of the call that takes its loader.

    Args:
        tree: the script.
        where: the line of the loop.
        loader: the script's name for the loader at the start of the epochs.
    """
    calls = [one for one in calls_in(tree) if is_call_of(one, where["function"], where["file"])]
    with_loader = calls_with_loader(calls, loader)
    if len(calls) < 2 or len(with_loader) != 1:
        return where
    (call,) = with_loader
    outer = [name for one, _, name in functions_of(tree) if holds(one, call.lineno)]
    return {**where, "line": call.lineno, "function": outer[-1] if outer else "<module>", "text": ast.unparse(call)}


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(word.value for word in call.keywords)]


def specialized(function: _Definition, arguments: Mapping[str, ast.expr]) -> _Definition:
    """A function specialised for one of its calls: branches whose conditions are false there are removed.

    Args:
        function: a function of the script.
        arguments: the call's arguments. Only constants decide.
    """
    known = {name: value.value for name, value in arguments.items() if isinstance(value, ast.Constant)}
    stored = [one.id for one in ast.walk(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
    deciding = _Deciding({name: value for name, value in known.items() if name not in stored}, stored)
    found: _Definition = copy.deepcopy(function)
    found.body = deciding.block(found.body)
    return found


class _Deciding(ast.NodeTransformer):
    """Removes branches that are not taken."""

    def __init__(self, known: dict[str, Any], stored: Sequence[str]) -> None:
        self._known, self._stored = known, stored
        self._is_run = [True]  # for each enclosing block

    def block(self, statements: Sequence[ast.stmt], *, is_run: bool = True) -> list[ast.stmt]:
        """Visit a body; a variable set once, unconditionally, to a decided value also decides."""
        self._is_run.append(self._is_run[-1] and is_run)
        found: list[ast.stmt] = []
        for one in statements:
            visited = self.visit(one)
            found += visited if isinstance(visited, list) else [visited]
            match one:
                case ast.Assign([ast.Name(name)], value) if self._is_run[-1] and self._stored.count(name) == 1:
                    is_decided, decided = self._decided(value)
                    if is_decided:
                        self._known[name] = decided
        self._is_run.pop()
        return found or [ast.Pass()]

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        """A condition."""
        is_decided, holds_there = self._decided(node.test)
        if not is_decided:
            node.body = self.block(node.body, is_run=False)
            node.orelse = self.block(node.orelse, is_run=False) if node.orelse else []
            return node
        kept = node.body if holds_there else node.orelse
        return self.block(kept) if kept else [ast.copy_location(ast.Pass(), node)]

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Decide a conditional expression."""
        is_decided, holds_there = self._decided(node.test)
        if not is_decided:
            return self.generic_visit(node)
        kept: ast.AST = self.visit(node.body if holds_there else node.orelse)
        return kept

    def visit_For(self, node: ast.For | ast.While | ast.Try) -> ast.AST:
        """Visit a block that may not run, or not to its end: names set there do not decide."""
        self._is_run.append(False)
        self.generic_visit(node)
        self._is_run.pop()
        return node

    visit_While = visit_Try = visit_For

    def visit_With(self, node: ast.With) -> ast.AST:
        """A guard."""
        node.body = self.block(node.body)
        return node

    def _decided(self, test: ast.expr) -> tuple[bool, Any]:
        """Whether a condition is decided by known values, and its value."""
        match test:
            case ast.BoolOp(op, values):
                ends = isinstance(op, ast.Or)  # the value of an operand that decides the result
                parts = [self._decided(one) for one in values]
                if any(is_decided and bool(value) is ends for is_decided, value in parts):
                    return True, ends
                return all(is_decided for is_decided, _ in parts), not ends
            case ast.UnaryOp(ast.Not(), operand):
                is_decided, value = self._decided(operand)
                return is_decided, not value
            case ast.Name(name) if name in self._known:
                return True, self._known[name]
            case ast.Constant(value):
                return True, value
            case ast.Compare(left, [operator], [right]):
                return self._compared(left, operator, right)
        return False, None

    def _compared(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> tuple[bool, Any]:
        (is_left, one), (is_right, other) = self._decided(left), self._decided(right)
        if not (is_left and is_right):
            return False, None
        match operator:
            case ast.Is():
                return True, one is other
            case ast.IsNot():
                return True, one is not other
            case ast.Eq():
                return True, one == other
            case ast.NotEq():
                return True, one != other
        return False, None
