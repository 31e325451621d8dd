"""The original's source: the statement at a line, its targets, and aliases of its names."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from port.translation.ir.source_location import SourceLocation


@dataclass(frozen=True)
class Statement:
    """A simple statement of the original.

    Attributes:
        place: its file and first line.
        targets: the names that it assigns, as a tree of tuples; None where a target is no name.
        names: the names in it.
        in_loop: whether it is in a loop.
        aliases: in its function, name → the name that it is an alias of (``identity = x``).
        comments: the comment lines right above it.
        text: its source.
        taken: the keys and attributes that it takes from a call's result: ``x = f(y)["a"]``.
        parts: in its function, the names of parts of other names' values: ``hidden = outputs[0]``.
        is_of_parts: whether it assigns separately computed values to several names: ``q, k = self.q(x), self.k(x)``.
    """

    place: SourceLocation
    targets: Any
    names: frozenset[str]
    in_loop: bool
    aliases: dict[str, str]
    comments: tuple[str, ...]
    text: str
    taken: tuple[Any, ...] = ()
    parts: dict[tuple[str, tuple[Any, ...]], str] = field(default_factory=dict)
    is_of_parts: bool = False


def statement_at(place: SourceLocation | None) -> Statement | None:
    """The statement that contains a line; None where there is none, or no source."""
    return None if place is None else _statements(place.file).get(place.line)


def outer_statements(place: SourceLocation | None, function: Any = None) -> tuple[Statement, ...]:
    """The statements whose calls lead to a line, innermost first; the last one is in a ``forward``.

    Args:
        place: the line.
        function: if not None, the statements stop inside this function.
    """
    lines = () if place is None else (place, *place.around)
    if function is not None:
        own = next((number for number, line in enumerate(lines) if _is_within(line, function)), 0)
        lines = lines[: own + 1]
    return tuple(found for line in lines[1:] if (found := statement_at(line)) is not None)


def _is_within(place: SourceLocation, function: Any) -> bool:
    code = function.__code__
    last = max((line for _, _, line in code.co_lines() if line is not None), default=code.co_firstlineno)
    return bool(place.file == code.co_filename and code.co_firstlineno <= place.line <= last)


@cache
def _statements(file: str) -> dict[int, Statement]:
    try:
        text = Path(file).read_text(encoding="utf-8")
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError):
        return {}
    found: dict[int, Statement] = {}
    lines = text.splitlines()
    _collect(tree, file, lines, False, _Names(), found)
    makers = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and _gives_a_function(node)}
    calls = {node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assign) and _calls_one(node.value, makers)}
    return {line: replace(each, targets=None) if each.place.line in calls else each for line, each in found.items()}


def _gives_a_function(function: ast.FunctionDef) -> bool:
    """Whether a function returns one that it defines: tensors computed during its call are not its result."""
    within = {node.name for node in function.body if isinstance(node, ast.FunctionDef)}
    returned = [node.value for node in function.body if isinstance(node, ast.Return)]
    return bool(returned) and all(isinstance(each, ast.Name) and each.id in within for each in returned)


def _calls_one(value: ast.expr, functions: set[str]) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in functions


def _collect(
    node: ast.AST, file: str, lines: list[str], in_loop: bool, names: _Names, found: dict[int, Statement]
) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            _collect(child, file, lines, False, _names_in(child), found)
            continue
        repeats = in_loop or isinstance(child, ast.For | ast.While)
        if isinstance(child, ast.stmt):
            simple = not hasattr(child, "body")
            # Only the head of a compound statement belongs to it.
            last = (child.end_lineno or child.lineno) if simple else child.body[0].lineno - 1  # type: ignore[attr-defined]
            statement = Statement(
                SourceLocation(file, child.lineno),
                _targets(child),
                frozenset(inner.id for inner in ast.walk(child) if isinstance(inner, ast.Name)),
                repeats,
                names.aliases,
                _comments(lines, child.lineno),
                "\n".join(lines[child.lineno - 1 : child.end_lineno]).strip() if simple else "",
                _taken(getattr(child, "value", None)),
                names.parts,
                _is_of_parts(child),
            )
            for line in range(child.lineno, last + 1):
                found[line] = statement
        _collect(child, file, lines, repeats, names, found)


def _targets(node: ast.AST) -> Any:
    if any(isinstance(inner, ast.Lambda) for inner in ast.walk(node)):
        return None  # the results go to the lambda's caller
    match node:
        case ast.Assign(targets=[target]):
            return _names(target)
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return _names(target)
    return None


def _is_of_parts(node: ast.AST) -> bool:
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            return len(names) == len(values)
    return False


def _taken(value: Any) -> tuple[Any, ...]:
    match value:
        case ast.Subscript(value=of, slice=ast.Constant(value=key)):
            return (*_taken(of), key)
        case ast.Attribute(value=of, attr=key):
            return (*_taken(of), key)
    return ()


def _names(target: ast.expr) -> Any:
    match target:
        case ast.Name(id=name):
            return name
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return tuple(map(_names, items))
        case ast.Subscript(slice=ast.Constant(value=str() as key)) if key.isidentifier():
            return key  # an item of a dict
        case ast.Subscript(value=ast.Name(id=name)):
            return name  # part of it is overwritten: JAX creates a new array
    return None


@dataclass(frozen=True)
class _Names:
    """Aliases and parts of names in a function (see `Statement`)."""

    aliases: dict[str, str] = field(default_factory=dict)
    parts: dict[tuple[str, tuple[Any, ...]], str] = field(default_factory=dict)


def _names_in(function: ast.AST) -> _Names:
    found = _Names()
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=other)):
                found.aliases[name] = other
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() | ast.Attribute() as value):
                of = value
                while isinstance(of, ast.Subscript | ast.Attribute):
                    of = of.value  # type: ignore[assignment]
                if isinstance(of, ast.Name) and (keys := _taken(value)):
                    found.parts.setdefault((of.id, keys), name)
    return found


def _comments(lines: list[str], line: int) -> tuple[str, ...]:
    above: list[str] = []
    number = line - 2
    while number >= 0 and lines[number].strip().startswith("#"):
        above.insert(0, lines[number].strip())
        number -= 1
    return tuple(above)
