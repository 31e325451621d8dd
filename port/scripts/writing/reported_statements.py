"""Reduce a statement to what prints, sums or leaves the loop, in the written loop's names."""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from port.scripts.writing.evaluation_lines import loaded
from port.scripts.writing.taken_statements import called_name, names_set


@dataclass(frozen=True)
class WrittenNames:
    """The script's names and their counterparts in the written loop.

    Attributes:
        loss: the script's name for the loss; it is ``loss`` there.
        known: names for the epoch, the options, the loaders and the batch counter.
        batch: names for the parts of a batch; only their lengths are known there.
        reserved: names of the written loop that no sum may have.
    """

    loss: str
    known: Mapping[str, str]
    batch: Mapping[str, str]
    reserved: Collection[str]


def reduced(statement: ast.stmt, *kinds: type[ast.stmt]) -> ast.stmt | None:
    """A statement reduced to some kinds, under its conditions; None if nothing is left.

    Args:
        statement: a statement of a script.
        kinds: ``Expr`` is a print, with the assignments that it needs; ``Break`` and ``Continue``.
    """
    match statement:
        case ast.If(test, body, []):
            kept = [inner for one in body if (inner := _within(one, *kinds)) is not None]
            tells = any(not isinstance(one, ast.Assign | ast.AugAssign) for one in kept)
            return ast.copy_location(ast.If(test, kept, []), statement) if tells else None
        case ast.Expr(value):
            is_kept = isinstance(value, ast.Call) and _is_print(value)
            return statement if is_kept and ast.Expr in kinds else None
    return statement if isinstance(statement, kinds) else None


def _within(statement: ast.stmt, *kinds: type[ast.stmt]) -> ast.stmt | None:
    """A statement under a condition; assignments for a print are kept: ``loss, seen = loss.item(), n * len(x)``."""
    if ast.Expr in kinds and isinstance(statement, ast.Assign | ast.AugAssign):
        return statement
    return reduced(statement, *kinds)


def reads_of(statement: ast.stmt) -> set[str]:
    """The names that a statement reads; for a compound statement, without those that it sets first."""
    if not isinstance(statement, ast.If):
        return loaded(statement)
    found, own = loaded(ast.copy_location(ast.Expr(statement.test), statement)), set[str]()
    for one in statement.body:
        found |= reads_of(one) - own
        own |= set(names_set(one)) if isinstance(one, ast.Assign) else set()
    return found


def prints_in(statement: ast.stmt) -> bool:
    """Whether it prints."""
    return any(isinstance(one, ast.Call) and _is_print(one) for one in ast.walk(statement))


def jumps_in(statement: ast.stmt) -> bool:
    """Whether it leaves the loop, or skips to its next iteration."""
    return any(isinstance(one, ast.Break | ast.Continue) for one in ast.walk(statement))


def written(statement: ast.stmt, known: Mapping[str, str], names: WrittenNames) -> str | None:
    """A statement in the written loop's names; None if it reads more of a batch than its length.

    Args:
        statement: a sum, which leaves the loss on its device, or a print.
        known: the script's names → the written loop's.
        names: the names in both.
    """
    writer = _Written(known, names, sums=not (prints_in(statement) or jumps_in(statement)))
    text = ast.unparse(ast.fix_missing_locations(writer.visit(copy.deepcopy(statement))))
    return None if writer.is_strange else text


class _Written(ast.NodeTransformer):
    """Rewrites a statement in the written loop's names.

    Attributes:
        is_strange: whether it reads more of a batch than its length.
    """

    def __init__(self, known: Mapping[str, str], names: WrittenNames, *, sums: bool) -> None:
        self._known, self._names, self._sums = known, names, sums
        self.is_strange = False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Rewrite a batch's length; and in a sum, ``loss.item()`` without waiting for it."""
        match node:
            case ast.Call(ast.Name("len"), [ast.Name(name)]) if name in self._names.batch:
                return self._length(name)
            case ast.Call(ast.Attribute(ast.Name(name), "size"), [ast.Constant(0)]) if name in self._names.batch:
                return self._length(name)
            case ast.Call(ast.Attribute(ast.Name(name), "item"), []) if name == self._names.loss and self._sums:
                return ast.Name("loss", ast.Load())
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Write the batch's size for ``x.shape[0]``."""
        match node:
            case ast.Subscript(ast.Attribute(ast.Name(name), "shape"), ast.Constant(0)) if name in self._names.batch:
                return self._length(name)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Rewrite a name of the script."""
        if node.id == self._names.loss:
            return ast.Name("loss", node.ctx)
        self.is_strange |= node.id in self._names.batch and node.id not in self._known
        said = ast.parse(self._known.get(node.id, node.id), mode="eval").body
        if isinstance(said, ast.Name):
            said.ctx = node.ctx
        return said

    def _length(self, name: str) -> ast.expr:
        return ast.parse(f"len({self._names.batch[name]})", mode="eval").body


def _is_print(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and called_name(call) == "print"
