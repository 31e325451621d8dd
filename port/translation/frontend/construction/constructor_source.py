"""Read a constructor's source: its assignments, calls and their arguments."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch


def parameters_of(function: Any) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function, without ``self`` or ``cls``."""
    try:
        found = dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {}
    if next(iter(found), None) in ("self", "cls"):
        del found[next(iter(found))]
    return found


def assignments(tree: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield (target, value) of each assignment; tuples are split into their parts."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from _parts(target, value)
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Name() as owner, attr="register_buffer" | "register_parameter" | "add_module"
                ),
                args=[ast.Constant(value=str(name)), value, *_],
            ):
                yield ast.Attribute(owner, name), value
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield target, value


def _parts(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if not isinstance(target, ast.Tuple | ast.List):
        yield target, value
    elif isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
        yield from zip(target.elts, value.elts, strict=True)
    else:
        for place, part in enumerate(target.elts):
            yield part, ast.Subscript(value, ast.Constant(place))


def with_item(expression: ast.expr, each: str, name: str, place: int) -> ast.expr:
    """Replace a comprehension's variable ``each`` in an expression by ``name[place]``."""
    item = f"{name}[{place}]"
    tree = ast.parse(ast.unparse(expression), mode="eval")
    read = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == each)
    text = ast.unparse(expression)
    for node in sorted(read, key=lambda node: node.col_offset, reverse=True):
        text = f"{text[: node.col_offset]}{item}{text[node.end_col_offset :]}"
    return ast.parse(text, mode="eval").body


def calls(tree: ast.AST) -> list[ast.Call]:
    """Return the calls in a tree, in source order."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return sorted(calls, key=lambda call: (call.lineno, call.col_offset))


def last_name(function: ast.expr) -> str:
    """Return the last part of a called name: ``Linear`` for ``nn.Linear``."""
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def arguments(call: ast.Call, parameters: Mapping[str, inspect.Parameter]) -> Iterator[tuple[str, ast.expr]]:
    """Yield (parameter name, argument) of a call; positional arguments end at a starred one."""
    positional = [each.name for each in parameters.values() if each.kind <= each.POSITIONAL_OR_KEYWORD]
    for name, argument in zip(positional, call.args, strict=False):
        if isinstance(argument, ast.Starred):
            break
        yield name, argument
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.arg, keyword.value


def next_init(cls: type, init: Any) -> Any:
    """Return the constructor after ``init`` in a class's MRO; None if that is torch.nn.Module's or object's."""
    found = [vars(base)["__init__"] for base in cls.__mro__ if "__init__" in vars(base)]
    places = [place for place, each in enumerate(found) if inspect.unwrap(each) is init]
    after = found[places[0] + 1] if places else None
    return None if after in (None, torch.nn.Module.__init__, object.__init__) else after


def is_switch(parameter: inspect.Parameter) -> bool:
    """Whether a parameter is a bool, by its default or its annotation."""
    return isinstance(parameter.default, bool) or parameter.annotation in (bool, "bool")
