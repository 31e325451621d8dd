"""Read expressions of a script's options: ``args.lr``, ``args.epochs * len(train_loader)``."""

from __future__ import annotations

import ast
import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from port.scripts.events import Event
from port.scripts.writing.own_calls import Function
from port.scripts.writing.renaming import renamed

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "int": int,
    "float": float,
    "round": round,
    "max": max,
    "min": min,
    "len": len,
    "abs": abs,
}
MOST_NAMES = 20
"""The most names that are resolved in a chain."""

Position = tuple[int, int]


@dataclass(frozen=True)
class OptionExpression:
    """An expression of options, of lengths of loaders and of numbers.

    Attributes:
        expression: the expression, whose names are only the script's options and its loaders.
        value: the observed value.
        options: the names of the options that it reads.
        loaders: the loaders whose lengths it reads.
        places: where in the script these options are read.
    """

    expression: ast.expr
    value: int | float
    options: frozenset[str]
    loaders: frozenset[str]
    places: frozenset[Position]

    def at(self, options: Mapping[str, Any]) -> int | float:
        """Its value with other options, if it reads no loader's length."""
        value: int | float = _value(self.expression, options, {})
        return value

    def said(self, loaders: Mapping[str, str]) -> str:
        """The expression in a written trainer, where the options are ``args``.

        Args:
            loaders: the script's name → the trainer's expression.
        """
        expression: ast.expr = _OfArgs(self.options).visit(copy.deepcopy(self.expression))
        return renamed(expression, loaders)


class OptionExpressions:
    """Reads such expressions in a script.

    Args:
        tree: the script's source.
        options: argparse's options, from an observation.
        loaders: its DataLoaders, from an observation.
    """

    def __init__(self, tree: ast.Module, options: Sequence[Event], loaders: Sequence[Event]) -> None:
        self._options = {one["name"]: one["given"] for one in options}
        self._lengths = {one["name"]: one["batches"] for one in loaders if one["batches"]}
        self._set = _set_once(tree)

    def of(self, node: ast.expr) -> OptionExpression | None:
        """Read an expression; None if it is not a number, reads no option, or reads something else."""
        try:
            expression = self._written_out(node, MOST_NAMES)
            value = _value(expression, self._options, self._lengths)
        except (_Else, ArithmeticError, TypeError, ValueError):
            return None
        reads = [one for one in ast.walk(expression) if isinstance(one, ast.Attribute)]
        if not reads or isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return None
        names = {one.id for one in ast.walk(expression) if isinstance(one, ast.Name)}
        return OptionExpression(
            expression,
            value,
            frozenset(one.attr for one in reads),
            frozenset(names & set(self._lengths)),
            frozenset((one.lineno, one.col_offset) for one in reads),
        )

    def _written_out(self, node: ast.expr, depth: int) -> ast.expr:
        """An expression with names that are set once replaced by their values."""
        match node:
            case ast.Constant(int() | float()):
                return node
            case ast.Attribute(ast.Name(), name) if name in self._options:
                return node
            case ast.Name(name) if name in self._set and depth:
                return self._written_out(self._set[name], depth - 1)
            case ast.BinOp(left, operator, right):
                sides = self._written_out(left, depth), self._written_out(right, depth)
                return ast.copy_location(ast.BinOp(sides[0], operator, sides[1]), node)
            case ast.UnaryOp(ast.USub() as operator, operand):
                return ast.copy_location(ast.UnaryOp(operator, self._written_out(operand, depth)), node)
            case ast.Call(ast.Name("len"), [ast.Name(name)], []) if name in self._lengths:
                return node
            case ast.Call(ast.Name(name), arguments, []) if name in FUNCTIONS and name != "len":
                written = [self._written_out(one, depth) for one in arguments]
                return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), written, []), node)
        raise _Else


class _Else(Exception):
    """An expression reads something else."""


class _OfArgs(ast.NodeTransformer):
    """``config.lr`` → ``args.lr``."""

    def __init__(self, options: frozenset[str]) -> None:
        self._options = options

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        """Rewrite an option."""
        return ast.Attribute(ast.Name("args", ast.Load()), node.attr, node.ctx) if node.attr in self._options else node


def _set_once(tree: ast.Module) -> dict[str, ast.expr]:
    """Names that a script sets exactly once, by a plain assignment outside of all loops and conditions."""
    stored = [one.id for one in ast.walk(tree) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
    parameters = {one.arg for one in ast.walk(tree) if isinstance(one, ast.arg)}
    blocks = [tree.body, *(one.body for one in ast.walk(tree) if isinstance(one, Function))]
    blocks += [one.body for one in tree.body if isinstance(one, ast.If)]  # if __name__ == "__main__":
    found = {}
    for block in blocks:
        for one in block:
            match one:
                case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), _, ast.expr() as value):
                    if stored.count(name) == 1 and name not in parameters:
                        found[name] = value
    return found


def _value(expression: ast.expr, options: Mapping[str, Any], lengths: Mapping[str, int]) -> Any:
    operators: dict[type[ast.operator], Any] = {
        ast.Add: lambda a, b: a + b,
        ast.Sub: lambda a, b: a - b,
        ast.Mult: lambda a, b: a * b,
        ast.Div: lambda a, b: a / b,
        ast.FloorDiv: lambda a, b: a // b,
        ast.Mod: lambda a, b: a % b,
    }

    def of(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value):
                return value
            case ast.Attribute(_, name):
                return options[name]
            case ast.BinOp(left, operator, right) if type(operator) in operators:
                return operators[type(operator)](of(left), of(right))
            case ast.UnaryOp(_, operand):
                return -of(operand)
            case ast.Call(ast.Name("len"), [ast.Name(name)]):
                return lengths[name]
            case ast.Call(ast.Name(name), arguments):
                return FUNCTIONS[name](*map(of, arguments))
        raise _Else

    return of(expression)
