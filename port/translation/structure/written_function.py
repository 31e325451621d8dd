"""A function of the original's as a function of the source, and how it is called."""

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
        name: the original's, with its stars.
        own: what the source calls it.
        by_name: whether it is given by its name alone.
        default: what it is where a call leaves it out; None where none does.
    """

    name: str
    own: str
    by_name: bool = False
    default: syntax.Expr | None = None


@dataclass(frozen=True)
class WrittenFunction:
    """A function to be written.

    Attributes:
        name: the original's, with a number where something else is called so.
        original: the original's function.
        parameters: those that it needs, in the original's order.
        statements: what it does.
        returns: what it gives.
        annotations: the parameters' names → how they are annotated in any call; ``"return"`` is what it gives.
    """

    name: str
    original: Any
    parameters: tuple[FunctionParameter, ...]
    statements: tuple[syntax.Stmt, ...]
    returns: syntax.Expr
    annotations: Mapping[str, frozenset[str]]

    def called(self, call: FunctionCall, given: Callable[[Any], syntax.Expr]) -> syntax.Expr:
        """The expression of a call, which gives what the original's call gives, by places and by names as that does.

        Args:
            call: of the original's.
            given: the expression of an argument.
        """
        arguments: list[syntax.Expr] = []
        keywords: list[syntax.Keyword] = []
        by_name = False
        for parameter in self.parameters:
            name = parameter.name.lstrip("*")
            value = call.parameters[name]
            if parameter.name.startswith("**"):
                keywords += [syntax.Keyword(key, given(item)) for key, item in value.items()]
            elif parameter.name.startswith("*"):
                arguments += map(given, value)
            elif parameter.default is not None and name not in (*call.enter.positional, *call.enter.named):
                by_name = True
            elif by_name or parameter.by_name or name in call.enter.named:
                by_name = True
                keywords.append(syntax.Keyword(parameter.own, given(value)))
            else:
                arguments.append(given(value))
        return syntax.Call(syntax.Name(self.name), tuple(arguments), tuple(keywords))


Functions = Mapping[FunctionType, WrittenFunction]
"""The original's functions → what they are written as, each behind those that it calls."""
