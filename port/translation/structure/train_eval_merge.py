"""Merge what a module does in training and in evaluation into one body."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TypeVar, cast

from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.structure.written_body import Body

N = TypeVar("N", bound=syntax.Node)

_MODE = "deterministic"
"""The attribute that Flax's ``train()`` and ``eval()`` set."""


def merged(training: Body, evaluation: Body, idle: Collection[syntax.Expr] = ()) -> Body:
    """Merge two bodies; what only one mode does goes under ``if not self.deterministic``.

    Args:
        training: the body in training.
        evaluation: the body in evaluation.
        idle: modules and methods that return their input in evaluation: ``self.drop_path``.
    """
    if _same(training, evaluation) or _same_but_for_idle(training, evaluation, _Idle(idle)):
        return training
    parameters = tuple(dict.fromkeys((*training.parameters, *evaluation.parameters)))
    statements: list[syntax.Stmt] = []
    matched = SequenceMatcher(None, training.statements, evaluation.statements, autojunk=False)
    for kind, i, j, k, end in matched.get_opcodes():
        if kind == "equal":
            statements += training.statements[i:j]
            continue
        statements += _guarded(training.statements[i:j], evaluation.statements[k:end], _Idle(idle))
    returns = evaluation.returns
    if training.returns != evaluation.returns:
        returned = syntax.Return(training.returns if training.returns is not None else syntax.Const(None))
        last = statements[-1] if statements else None
        if isinstance(last, syntax.If) and last.test == _test(False) and not last.orelse:
            statements[-1] = replace(last, body=(*last.body, returned))
        else:
            statements.append(syntax.If(_test(False), (returned,)))
    return Body(parameters, tuple(statements), returns, modes=True)


def with_modes_apart(body: Body) -> Body | None:
    """Separate the modes: one branch per mode, from the first difference to the last.

    None where there is at most one difference.

    Args:
        body: the merged body of both modes.
    """
    places = [
        place
        for place, statement in enumerate(body.statements)
        if _is_of_mode(statement) and not any(isinstance(node, syntax.Return) for node in syntax.walk(statement))
    ]
    if len(places) < 2:
        return None
    first, end = places[0], places[-1] + 1
    both = [list[syntax.Stmt](), list[syntax.Stmt]()]
    for statement in body.statements[first:end]:
        for branch, of_mode in zip(both, _of_modes(statement), strict=True):
            branch += of_mode
    branched = _guarded(tuple(both[0]), tuple(both[1]), _Idle())
    return replace(body, statements=(*body.statements[:first], *branched, *body.statements[end:]))


def _is_of_mode(statement: syntax.Stmt) -> bool:
    return isinstance(statement, syntax.If) and statement.test in (_test(False), _test(True))


def _of_modes(statement: syntax.Stmt) -> tuple[tuple[syntax.Stmt, ...], tuple[syntax.Stmt, ...]]:
    """A statement's parts in training and in evaluation."""
    if not isinstance(statement, syntax.If) or not _is_of_mode(statement):
        return (statement,), (statement,)
    branches = (statement.body, statement.orelse)
    return branches if statement.test == _test(False) else (branches[1], branches[0])


def _guarded(
    training: tuple[syntax.Stmt, ...], evaluation: tuple[syntax.Stmt, ...], idle: _Idle
) -> tuple[syntax.Stmt, ...]:
    training = tuple(statement for statement in training if not isinstance(statement, syntax.Comment))
    evaluation = tuple(statement for statement in evaluation if not isinstance(statement, syntax.Comment))
    if not training and not evaluation:
        return ()
    if not training:
        return (syntax.If(_test(True), evaluation),)
    if not evaluation and all(map(idle.is_all, training)):
        return training
    return (syntax.If(_test(False), training, evaluation),)


def _test(evaluation: bool) -> syntax.Expr:
    return code(f"self.{_MODE}" if evaluation else f"not self.{_MODE}")


def _same(one: Body, other: Body) -> bool:
    return one.statements == other.statements and one.returns == other.returns


def _same_but_for_idle(training: Body, evaluation: Body, idle: _Idle) -> bool:
    """Whether the bodies are equal once calls that do nothing in evaluation are removed."""
    kept = tuple(idle.without(statement) for statement in training.statements if not idle.is_all(statement))
    stripped = Body(training.parameters, kept, training.returns and idle.without(training.returns))
    return _same(stripped, evaluation)


@dataclass(frozen=True)
class _Idle:
    """Calls that do nothing in evaluation: dropouts and others.

    Attributes:
        others: callees other than dropouts.
    """

    others: Collection[syntax.Expr] = ()

    def is_all(self, statement: syntax.Stmt) -> bool:
        """Whether a statement is just such a call: ``x = self.dropout(x)``."""
        match statement:
            case syntax.Assign(syntax.Name() as name, syntax.Call() as call) if self._is_call(call):
                return call.args[0] == name
        return False

    def without(self, tree: N) -> N:
        """Remove such calls from a tree."""
        if isinstance(tree, syntax.FunctionDef):
            tree = replace(tree, body=tuple(statement for statement in tree.body if not self.is_all(statement)))
        tree = syntax.with_parts(tree, self.without)
        if not isinstance(tree, syntax.Call):
            return tree
        call = replace(tree, keywords=tuple(keyword for keyword in tree.keywords if keyword.arg != "dropout"))
        return cast(N, call.args[0] if self._is_call(call) else call)

    def _is_call(self, node: syntax.Node) -> bool:
        match node:
            case syntax.Call(syntax.Attribute(syntax.Name("self"), name), (_,), ()) if _is_dropout(name):
                return True
            case syntax.Call(function, (_,), ()):
                return function in self.others
        return False


def _is_dropout(name: str) -> bool:
    return name.rstrip("0123456789") == "dropout"
