"""Rewrite an evaluation's torch sums for JAX: they stay on the device until they are read."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence

from port.scripts.writing.evaluated_numbers import TakenNumber

MOVES = ("cpu", "cuda", "to", "float", "double", "detach")
"""Methods of a torch sum that JAX does not need."""


def sums_of(loop: ast.For, taken: Sequence[TakenNumber]) -> set[str]:
    """The variables in which a script sums numbers within torch.

    Args:
        loop: the loop over the evaluation's batches.
        taken: the numbers of one batch.
    """
    lines = {one.where["line"] for one in taken if one.is_added}
    return {
        one.target.id
        for one in ast.walk(loop)
        if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name) and one.lineno in lines
    }


class ReplacedSum(ast.NodeTransformer):
    """``total += x`` → ``total += numbers[n]``, at one line.

    Attributes:
        count: how many times it was found.

    Args:
        text: the added term.
        line: the script's line.
        number: the measured number's index.
    """

    def __init__(self, text: str, line: int, number: int) -> None:
        self._text, self._line, self._number, self.count = text, line, number, 0

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """Replace the statement."""
        is_there = node.lineno <= self._line <= (node.end_lineno or node.lineno)
        if is_there and ast.unparse(node.value) == self._text:
            self.count += 1
            measured = ast.parse(f"numbers[{self._number}]", mode="eval").body
            return ast.fix_missing_locations(ast.copy_location(ast.AugAssign(node.target, node.op, measured), node))
        return node


def with_sums(block: Sequence[ast.stmt], sums: set[str]) -> list[ast.stmt]:
    """Statements around a loop whose sums JAX computes: sums start from numbers, and are not moved between devices."""
    return [_OfSums(sums).visit(copy.deepcopy(one)) for one in block]


class _OfSums(ast.NodeTransformer):
    """Writes sums as numbers: ``total = torch.zeros(1)`` → ``total = 0.0``, ``total.double().cpu()`` → ``total``."""

    def __init__(self, sums: set[str]) -> None:
        self._sums = sums

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Replace a sum's initial value."""
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name) and node.targets[0].id in self._sums:
            match node.value:
                case ast.Call(ast.Attribute(ast.Name("torch"), "zeros")):
                    node.value = ast.copy_location(ast.Constant(0.0), node.value)
                case ast.Call(ast.Attribute(ast.Name("torch"), "tensor"), [ast.Constant() as first, *_]):
                    node.value = first
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Remove a sum's move to another device or cast to another dtype."""
        inner = self.generic_visit(node)
        match inner:
            case ast.Call(ast.Attribute(ast.Name(name) as value, method)) if name in self._sums and method in MOVES:
                return value
        return inner
