"""Signatures of constructors, and checks of their arguments."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from types import FunctionType
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.structure.kept_constructors.class_values import ClassValues

_KINDS: Mapping[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
    inspect.Parameter.KEYWORD_ONLY: "name",
}
_SIMPLE = {"int", "float", "bool", "str", "tuple", "list", "dict", "None"}


def parameters_of(function: FunctionType, values: ClassValues) -> tuple[syntax.Parameter, ...]:
    """The parameters of a function, with classes as defaults replaced by their twins.

    Raises:
        CannotKeep: a default has no source form.
    """
    found = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "self":
            found.append(syntax.Parameter("self"))
            continue
        default = None if parameter.default is parameter.empty else values.default(parameter.default)
        found.append(syntax.Parameter(name, _annotation(parameter.annotation), default, _KINDS.get(parameter.kind, "")))
    return tuple(found)


def parameters_taken(cls: type) -> dict[str, inspect.Parameter]:
    """All named arguments of a class's constructor, including those that it passes to its base by ``**kwargs``."""
    found: dict[str, inspect.Parameter] = {}
    for base in cls.__mro__:
        if "__init__" not in vars(base):
            continue
        found = own_parameters(base) | found
        if all(each.kind is not each.VAR_KEYWORD for each in inspect.signature(base.__init__).parameters.values()):  # type: ignore[misc]
            break
    return found


def own_parameters(cls: type) -> dict[str, inspect.Parameter]:
    """The named parameters of a class's own constructor."""
    every = list(inspect.signature(cls.__init__).parameters.values())[1:]  # type: ignore[misc]
    return {each.name: each for each in every if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}


def refusal(cls: str, name: str, value: syntax.Expr) -> syntax.Stmt:
    """A statement that rejects other values of an argument."""
    message = f"{cls} is written for {name}={syntax.source(value)} alone"
    error = code("ValueError(message)", message=message)
    test = "is not" if value in (syntax.Const(None), syntax.Const(True), syntax.Const(False)) else "!="
    return syntax.If(syntax.Compare(syntax.Name(name), (test,), (value,)), (syntax.Raise(error),))


def default_refused(cls: str, name: str, default: type) -> syntax.Stmt:
    """A statement that rejects an argument's default, a class that is not written."""
    message = f"{cls} is written without {default.__name__}, which {name} is by default: give another"
    error = code("NotImplementedError(message)", message=message)
    return syntax.If(code("argument is None", argument=syntax.Name(name)), (syntax.Raise(error),))


def _annotation(annotation: Any) -> syntax.Expr:
    """A parameter's annotation, if it consists of Python's own types; else ``Any``."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    if not isinstance(annotation, str) and getattr(annotation, "__args__", None):
        text = str(annotation)
    try:
        names = {node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)}
        return syntax.parsed(text) if text and names <= _SIMPLE else syntax.Name("Any")
    except SyntaxError:
        return syntax.Name("Any")
