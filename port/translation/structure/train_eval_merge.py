"""What a module does in training and what it does in evaluation, as one body."""

from __future__ import annotations

import ast
import copy
from difflib import SequenceMatcher
from typing import Any

from port.translation.structure.body import Body

_MODE = "deterministic"
"""What Flax's ``train()`` and ``eval()`` set."""


def merged(training: Body, evaluation: Body) -> Body:
    """One body: what only one mode does stands behind ``if not self.deterministic``."""
    if _same(training, evaluation) or _same_but_for_dropout(training, evaluation):
        return training
    parameters = [*training.parameters, *(name for name in evaluation.parameters if name not in training.parameters)]
    before, after = ([ast.dump(statement) for statement in body.statements] for body in (training, evaluation))
    statements: list[ast.stmt] = []
    for kind, i, j, k, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            statements += training.statements[i:j]
            continue
        statements += _guarded(training.statements[i:j], evaluation.statements[k:end])
    returns = evaluation.returns
    if _dump(training.returns) != _dump(evaluation.returns):
        given = training.returns if training.returns is not None else ast.Constant(None)
        last = statements[-1] if statements else None
        if isinstance(last, ast.If) and ast.unparse(last.test) == f"not self.{_MODE}" and not last.orelse:
            last.body.append(ast.Return(given))
        else:
            statements.append(ast.If(_test(False), [ast.Return(given)], []))
    return Body(parameters, statements, returns, modes=True)


def _guarded(training: list[ast.stmt], evaluation: list[ast.stmt]) -> list[ast.stmt]:
    training = [statement for statement in training if not _is_comment(statement)]
    evaluation = [statement for statement in evaluation if not _is_comment(statement)]
    if not training and not evaluation:
        return []
    if not training:
        return [ast.If(_test(True), evaluation, [])]
    if not evaluation and all(_only_drops(statement) for statement in training):
        return training
    return [ast.If(_test(False), training, evaluation)]


def _test(evaluation: bool) -> ast.expr:
    return ast.parse(f"self.{_MODE}" if evaluation else f"not self.{_MODE}", mode="eval").body


def _same(one: Body, other: Body) -> bool:
    return [ast.dump(s) for s in one.statements] == [ast.dump(s) for s in other.statements] and (
        _dump(one.returns) == _dump(other.returns)
    )


def _same_but_for_dropout(training: Body, evaluation: Body) -> bool:
    """Whether they are the same once the dropouts, which do nothing in evaluation, are taken out."""
    kept = [statement for statement in training.statements if not _only_drops(statement)]
    stripped = Body(training.parameters, [_stripped(s) for s in kept], training.returns and _stripped(training.returns))
    return _same(stripped, evaluation)


def _only_drops(statement: ast.stmt) -> bool:
    """``x = self.dropout(x)``."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if _is_dropout(call):
            return isinstance(call.args[0], ast.Name) and call.args[0].id == name
    return False


def _is_dropout(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name), args=[_], keywords=[]):
            return name.rstrip("0123456789") == "dropout"
    return False


class _Stripping(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.body = [statement for statement in node.body if not _only_drops(statement)]
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        node.keywords = [keyword for keyword in node.keywords if keyword.arg != "dropout"]
        return node.args[0] if _is_dropout(node) else node


def _stripped(tree: Any) -> Any:
    return _Stripping().visit(copy.deepcopy(tree))


def _is_comment(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Name)


def _dump(tree: ast.AST | None) -> str:
    return "" if tree is None else ast.dump(tree)
