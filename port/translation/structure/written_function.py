"""A function of the original as a function of the source, and its calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from port.translation.ir import syntax
from port.translation.structure.call_tree import FunctionCall


@dataclass(frozen=True)
class FunctionParameter:
    """A parameter of a function.

    Attributes:
        name: the original's name, with its stars.
        own: its name in the source.
        by_name: whether it is keyword-only.
        default: its value where a call omits it; None where no call does.
    """

    name: str
    own: str
    by_name: bool = False
    default: syntax.Expr | None = None


@dataclass(frozen=True)
class WrittenFunction:
    """A function to write.

    Attributes:
        name: the original's name, numbered if that is taken.
        original: the original's function.
        parameters: the parameters that it needs, in the original's order.
        statements: its statements.
        returns: its return value.
        annotations: parameter names → their annotations in any call; ``"return"`` for the return value.
    """

    name: str
    original: Any
    parameters: tuple[FunctionParameter, ...]
    statements: tuple[syntax.Stmt, ...]
    returns: syntax.Expr
    annotations: Mapping[str, frozenset[str]]

    def called(self, call: FunctionCall, written: Callable[[Any], syntax.Expr]) -> syntax.Expr:
        """Write a call with the same arguments by position and by name as the original's call.

        Args:
            call: the original's call.
            written: writes an argument.
        """
        arguments: list[syntax.Expr] = []
        keywords: list[syntax.Keyword] = []
        by_name = False
        for parameter in self.parameters:
            name = parameter.name.lstrip("*")
            value = call.parameters[name]
            if parameter.name.startswith("**"):
                keywords += [syntax.Keyword(key, written(item)) for key, item in value.items()]
            elif parameter.name.startswith("*"):
                arguments += map(written, value)
            elif parameter.default is not None and name not in (*call.enter.positional, *call.enter.named):
                by_name = True
            elif by_name or parameter.by_name or name in call.enter.named:
                by_name = True
                keywords.append(syntax.Keyword(parameter.own, written(value)))
            else:
                arguments.append(written(value))
        return syntax.Call(syntax.Name(self.name), tuple(arguments), tuple(keywords))


Functions = Mapping[FunctionType, WrittenFunction]
"""The original's functions → their written versions, each after those that it calls."""
