"""Find a script's expression for a number: ``lam``, ``1 - lam``, or the length of a batch, ``len(images)``."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import FrameType
from typing import TYPE_CHECKING, Any

from port.scripts.observing.graph import Computation
from port.scripts.observing.statements import parsed, statement_text

if TYPE_CHECKING:
    from port.scripts.writing.capture import LossPath  # which names numbers by this module

PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Load)
"""Nodes that can be evaluated again without side effects."""

Expressions = dict[int, frozenset[str]]
"""A number's index among those of a call → the expressions with that value."""


def numbers_in(value: Any) -> list[float]:
    """The numbers among arguments, in the order in which they are written."""
    if isinstance(value, bool):
        return []
    if isinstance(value, int | float):
        return [float(value)]
    if isinstance(value, slice):
        return numbers_in([value.start, value.stop, value.step])
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [one for item in items for one in numbers_in(item)]


def expressions_of(call: Computation, frames: Sequence[FrameType]) -> Expressions:
    """The expressions for the numbers among a call's arguments in its line; only in functions that still run.

    Args:
        call: a path's call.
        frames: frames of the script's code when its loss is computed.
    """
    numbers, where = numbers_in(call.live), call.where
    frame = next((one for one in frames if where is not None and _is_of(one, where)), None)
    if not numbers or where is None or frame is None:
        return {}
    values = dict(_values(statement_text(where["file"], where["line"]), frame))
    return {
        place: frozenset(said for said, value in values.items() if value == number)
        for place, number in enumerate(numbers)
    }


def common(found: Collection[Mapping[int, frozenset[str]]], place: int) -> str | None:
    """The shortest expression that had a number's value in all steps; None if there is none."""
    said = frozenset.intersection(*(one.get(place, frozenset()) for one in found)) if found else frozenset()
    return min(said, key=lambda one: (len(one), one), default=None)


def with_common_numbers(paths: Sequence[LossPath]) -> list[LossPath]:
    """The same paths, each number only with the expressions that had its value in all of them.

    A number that equals the batch's length by chance in one step differs from it in the step with the smaller batch.
    """
    if len({len(path.calls) for path in paths}) > 1:
        return list(paths)
    made = []
    for path in paths:
        numbers = {}
        for place, call in enumerate(path.calls):
            rows = [other.numbers.get(other.calls[place].number, {}) for other in paths]
            numbers[call.number] = {
                number: frozenset.intersection(*(row.get(number, frozenset()) for row in rows))
                for number in path.numbers.get(call.number, {})
            }
        made.append(replace(path, numbers=numbers))
    return made


def _is_of(frame: FrameType, where: dict[str, Any]) -> bool:
    name = where["function"].rpartition(".")[2]
    return frame.f_code.co_name == name and frame.f_code.co_filename == where["file"]


def _values(statement: str, frame: FrameType) -> Iterator[tuple[str, float]]:
    try:
        tree = ast.parse(statement)
    except SyntaxError:  # the head of a statement with a body
        return
    for node in ast.walk(tree):
        is_plain = isinstance(node, ast.expr) and all(isinstance(one, PLAIN) for one in ast.walk(node))
        if (
            is_plain
            and not isinstance(node, ast.Constant)
            and all(_is_number(_value(one, frame)) for one in _leaves(node))
        ):
            value = _value(node, frame)
            if _is_number(value):
                yield ast.unparse(node), float(value)
    said = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    for text, value in _lengths(tree, frame):
        if value not in said:  # a literal number in the statement is that number
            yield text, value


def lengths_in(call: Computation, frames: Sequence[FrameType]) -> dict[int, tuple[Any, int]]:
    """The tensor and axis from which the numbers among a call's arguments were read in its function.

    Args:
        call: the call just made.
        frames: frames of the script's code.
    """
    numbers, where = numbers_in(call.live), call.where
    frame = next((one for one in frames if where is not None and _is_of(one, where)), None)
    if not numbers or where is None or frame is None:
        return {}
    try:
        tree = ast.parse(statement_text(where["file"], where["line"]))
    except SyntaxError:  # the head of a statement with a body
        return {}
    found: dict[int, tuple[Any, int]] = {}
    for text, value in _lengths(tree, frame):
        tensor = _value(ast.Name(tensor_of_length(text) or "", ast.Load()), frame)
        for place in [place for place, number in enumerate(numbers) if number == value]:
            found.setdefault(place, (tensor, _axis(text)))
    return found


def _axis(text: str) -> int:
    match ast.parse(text, mode="eval").body:
        case (
            ast.Call(func=ast.Attribute(), args=[ast.Constant(int() as axis)])
            | ast.Subscript(slice=ast.Constant(int() as axis))
        ):
            return axis
    return 0


def tensor_of_length(text: str) -> str | None:
    """``images`` for ``len(images)``, ``images.size(0)`` or ``images.shape[0]``; None for anything else."""
    match ast.parse(text, mode="eval").body:
        case (
            ast.Call(func=ast.Name("len"), args=[ast.Name(name)], keywords=[])
            | ast.Call(func=ast.Attribute(ast.Name(name), "size"), args=[ast.Constant()], keywords=[])
            | ast.Subscript(value=ast.Attribute(ast.Name(name), "shape"), slice=ast.Constant())
        ):
            return name
    return None


def _lengths(tree: ast.AST, frame: FrameType) -> Iterator[tuple[str, float]]:
    """The lengths of tensors that a statement reads: directly, or through a variable that was set to one."""
    texts = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Call | ast.Subscript)}
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for name, values in _assigned(frame.f_code.co_filename, frame.f_code.co_firstlineno).items():
        if name in names and len(values) == 1:
            texts |= values
    for text in sorted(texts):
        tensor = tensor_of_length(text)
        if tensor is not None and hasattr(_value(ast.Name(tensor, ast.Load()), frame), "dim"):
            value = _value(ast.parse(text, mode="eval").body, frame)
            if _is_number(value):
                yield text, float(value)


@cache
def _assigned(file: str, line: int) -> dict[str, set[str]]:
    """All values to which a function's or a module's variables are set."""
    tree: ast.AST = parsed(file)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    tree = next((node for node in functions if node.lineno == line), tree)
    found: dict[str, set[str]] = defaultdict(set)
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(name)], value=value):
                found[name].add(ast.unparse(value))
            case ast.Assign(targets=[ast.Tuple(names)], value=ast.Attribute(ast.Name(), "shape") as shape):
                for place, each in enumerate(names):
                    if isinstance(each, ast.Name):
                        found[each.id].add(f"{ast.unparse(shape)}[{place}]")
    return dict(found)


def _leaves(node: ast.AST) -> list[ast.AST]:
    """The variables and attributes of an expression; tensors are not evaluated to see whether they are numbers."""
    if isinstance(node, ast.Name | ast.Attribute):
        return [node]
    return [one for child in ast.iter_child_nodes(node) for one in _leaves(child)]


def _value(node: ast.AST, frame: FrameType) -> Any:
    try:
        return eval(compile(ast.unparse(node), "<number>", "eval"), frame.f_globals, dict(frame.f_locals))
    except Exception:  # a property of the script's own may fail
        return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
