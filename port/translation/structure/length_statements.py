"""Find the original's statements that name lengths: ``B, T, C = x.shape``, ``n = x.size(0)``."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from port.translation.ir.source_location import SourceLocation

UNNAMED = "_"


@dataclass(frozen=True)
class LengthStatement:
    """A statement that names lengths of one tensor.

    Attributes:
        place: its file and first line.
        last_line: its last line.
        tensor: the variable whose shape is read.
        assigned_at: first line of the statement that assigned that variable; None for a parameter.
        names: the names of the lengths, in the original's order.
        axes: the axes, with the original's indices, or a slice of all axes.
        block: first and last line of the block that contains it: later statements of the block run after it.
        is_outermost: whether that block is the function's body.
        is_one: whether it assigns one length to one name, rather than a tuple of names.
        is_list: whether it assigns several lengths to one name: ``input_shape = x.shape[:-1]``.
    """

    place: SourceLocation
    last_line: int
    tensor: str
    assigned_at: int | None
    names: tuple[str, ...]
    axes: tuple[int, ...] | slice
    block: tuple[int, int]
    is_outermost: bool
    is_one: bool = False
    is_list: bool = False

    def axes_of(self, rank: int) -> tuple[tuple[str, int], ...] | None:
        """Each name with its axis of the tensor; None where they do not fit.

        For a list, the names are those of its items.

        Args:
            rank: the tensor's number of axes.
        """
        axes = range(rank)[self.axes] if isinstance(self.axes, slice) else self.axes
        if not all(-rank <= axis < rank for axis in axes):
            return None
        names = [f"{self.names[0]}[{place}]" for place in range(len(axes))] if self.is_list else list(self.names)
        if REST in names:
            place, more = names.index(REST), len(axes) - len(names) + 1
            if more < 0:
                return None
            names[place : place + 1] = [UNNAMED] * more
        if len(names) != len(axes):
            return None
        return tuple((name, axis % rank) for name, axis in zip(names, axes, strict=True))


REST = "*_"
"""Among the names: any number of lengths that get no name."""


def length_statements(function: Any) -> tuple[LengthStatement, ...]:
    """Find the statements of a function that name lengths, in order; those in loops are left out."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return () if code is None else _in_function(code.co_filename, code.co_firstlineno, code.co_name)


@cache
def _in_function(file: str, line: int, name: str) -> tuple[LengthStatement, ...]:
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if first == line:
                return tuple(sorted(_in_block(node.body, node, file), key=lambda each: each.place.line))
    return ()


def _in_block(block: Sequence[ast.stmt], function: ast.FunctionDef, file: str) -> Iterator[LengthStatement]:
    for statement in block:
        match statement:
            case ast.Assign(targets=[target], value=value):
                yield from _read(statement, target, value, block, function, file)
            case ast.If(body=body, orelse=orelse):
                yield from _in_block(body, function, file)
                yield from _in_block(orelse, function, file)
            case ast.With(body=body):
                yield from _in_block(body, function, file)


def _read(
    statement: ast.stmt,
    target: ast.expr,
    value: ast.expr,
    block: Sequence[ast.stmt],
    function: ast.FunctionDef,
    file: str,
) -> Iterator[LengthStatement]:
    names = _names(target)
    read = _lengths_read(value)
    if names is None or read is None:
        return
    tensor, axes = read
    is_one = isinstance(target, ast.Name)
    assigned = _assigned_at(tensor, statement, function)
    if assigned is False or (isinstance(axes, int) and not is_one) or (isinstance(axes, tuple) and is_one):
        return
    yield LengthStatement(
        SourceLocation(file, statement.lineno),
        statement.end_lineno or statement.lineno,
        tensor,
        None if assigned is True else assigned,
        names,
        (axes,) if isinstance(axes, int) else axes,
        (block[0].lineno, block[-1].end_lineno or block[-1].lineno),
        block is function.body,
        is_one=isinstance(axes, int),
        is_list=is_one and isinstance(axes, slice),
    )


def _names(target: ast.expr) -> tuple[str, ...] | None:
    match target:
        case ast.Name(name):
            return (name,)
        case ast.Tuple(items) | ast.List(items):
            found = [_name(item) for item in items]
            named = [name for name in found if name not in (None, UNNAMED, REST)]
            if None not in found and len({*named}) == len(named):
                return tuple(name for name in found if name is not None)
    return None


def _name(item: ast.expr) -> str | None:
    match item:
        case ast.Name(name):
            return name
        case ast.Starred(ast.Name(name)) if name == UNNAMED:
            return REST
    return None


def _lengths_read(value: ast.expr) -> tuple[str, tuple[int, ...] | slice | int] | None:
    """The variable whose lengths an expression reads, and the axes: a slice, several, or one."""
    match value:
        case ast.Attribute(ast.Name(tensor), "shape") | ast.Call(ast.Attribute(ast.Name(tensor), "size"), [], []):
            return tensor, slice(None)
        case ast.Call(ast.Attribute(ast.Name(tensor), "size"), [axis], []) if (one := _number(axis)) is not None:
            return tensor, one
        case ast.Subscript(of, ast.Slice(lower, upper, None)):
            whole = _lengths_read(of)
            ends = [None if end is None else _number(end) for end in (lower, upper)]
            is_known = all((end is None) == (node is None) for end, node in zip(ends, (lower, upper), strict=True))
            return (whole[0], slice(*ends)) if whole is not None and whole[1] == slice(None) and is_known else None
        case ast.Subscript(of, key) if (one := _number(key)) is not None:
            whole = _lengths_read(of)
            return (whole[0], one) if whole is not None and whole[1] == slice(None) else None
        case ast.Tuple(items):
            each = [_lengths_read(item) for item in items]
            axes = [read[1] for read in each if read is not None and isinstance(read[1], int)]
            tensors = {read[0] for read in each if read is not None}
            return (tensors.pop(), tuple(axes)) if len(axes) == len(items) and len(tensors) == 1 else None
    return None


def _number(node: ast.expr) -> int | None:
    match node:
        case ast.Constant(int() as value) if not isinstance(value, bool):
            return value
        case ast.UnaryOp(ast.USub(), ast.Constant(int() as value)):
            return -value
    return None


def _assigned_at(name: str, statement: ast.stmt, function: ast.FunctionDef) -> int | bool:
    """The last line before a statement that assigns a name; True for a parameter, False for neither."""
    found: list[int] = []

    def look(node: ast.AST, line: int) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                continue
            here = child.lineno if isinstance(child, ast.stmt) else line
            if isinstance(child, ast.Name) and child.id == name and not isinstance(child.ctx, ast.Load):
                found.append(here)
            look(child, here)

    look(function, function.lineno)
    before = [line for line in found if line < statement.lineno]
    if before:
        return max(before)
    arguments = function.args
    return name in {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
