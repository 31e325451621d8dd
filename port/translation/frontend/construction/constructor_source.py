"""The source of a constructor, as what is assigned, called and given in it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch


def parameters_of(function: Any) -> Mapping[str, inspect.Parameter]:
    """The parameters of a function, without the object of a method."""
    try:
        found = dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {}
    if next(iter(found), None) in ("self", "cls"):
        del found[next(iter(found))]
    return found


def assignments(tree: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is assigned to what; of a tuple, each part."""
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
    """An expression with an item of a parameter, in the place of the variable that is each of them."""

    item = f"{name}[{place}]"
    tree = ast.parse(ast.unparse(expression), mode="eval")
    read = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == each)
    text = ast.unparse(expression)
    for node in sorted(read, key=lambda node: node.col_offset, reverse=True):
        text = f"{text[: node.col_offset]}{item}{text[node.end_col_offset :]}"
    return ast.parse(text, mode="eval").body


def calls(tree: ast.AST) -> list[ast.Call]:
    """The calls of a function in the order of the source."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return sorted(calls, key=lambda call: (call.lineno, call.col_offset))


def last_name(function: ast.expr) -> str:
    """The name of what is called, without what it is an attribute of."""
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def arguments(call: ast.Call, parameters: Mapping[str, inspect.Parameter]) -> Iterator[tuple[str, ast.expr]]:
    """Which parameter each argument of a call is given to, as far as no star stands before it."""
    positional = [each.name for each in parameters.values() if each.kind <= each.POSITIONAL_OR_KEYWORD]
    for name, argument in zip(positional, call.args, strict=False):
        if isinstance(argument, ast.Starred):
            break
        yield name, argument
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.arg, keyword.value


def next_init(cls: type, init: Any) -> Any:
    """The constructor of the next class of those that a class derives from; None where that is torch's plainest."""
    found = [vars(base)["__init__"] for base in cls.__mro__ if "__init__" in vars(base)]
    places = [place for place, each in enumerate(found) if inspect.unwrap(each) is init]
    after = found[places[0] + 1] if places else None
    return None if after in (None, torch.nn.Module.__init__, object.__init__) else after


def is_switch(parameter: inspect.Parameter) -> bool:
    """Whether a parameter is True or False."""
    return isinstance(parameter.default, bool) or parameter.annotation in (bool, "bool")
