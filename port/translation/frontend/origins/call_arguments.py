"""Match the arguments of a call with the parameters of the function it calls."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from types import CodeType, FunctionType

from port.translation.frontend.origins.resolved import Resolved
from port.translation.ir.origin import DefaultOf

LazyArgument = Callable[[], Resolved]
"""Resolves an argument lazily."""


@dataclass(frozen=True)
class CallArguments:
    """The arguments of a call, with starred ones unpacked.

    Attributes:
        positional: positional arguments, in order.
        named: keyword arguments.
        are_all_positional: whether ``positional`` is complete: every starred argument could be resolved.
        are_all_named: whether ``named`` is complete: every double-starred argument could be resolved.
        last: the positional arguments after the last starred one, where their number is not known.
    """

    positional: tuple[LazyArgument, ...] = ()
    named: Mapping[str, LazyArgument] = field(default_factory=dict)
    are_all_positional: bool = True
    are_all_named: bool = True
    last: tuple[LazyArgument, ...] = ()

    def preceded_by(self, first: Sequence[Resolved]) -> CallArguments:
        """Return these arguments with others in front, such as a method's ``self``."""
        return CallArguments(
            (*(_known(found) for found in first), *self.positional),
            self.named,
            self.are_all_positional,
            self.are_all_named,
            self.last,
        )


def call_arguments(call: ast.Call, resolve: Callable[[ast.expr], Resolved]) -> CallArguments:
    """Return the arguments of a call.

    Args:
        call: the call's syntax tree.
        resolve: resolves an expression at the call's position.
    """
    positional: list[LazyArgument] = []
    named: dict[str, LazyArgument] = {}
    are_all_positional = are_all_named = True
    for argument in call.args:
        if not isinstance(argument, ast.Starred):
            positional.append(_later(resolve, argument))
            continue
        items = resolve(argument.value).each_item()
        if items is None:
            are_all_positional = False  # and the positions of later arguments are unknown
            break
        positional += map(_known, items)
    for keyword in call.keywords:
        if keyword.arg is not None:
            named[keyword.arg] = _later(resolve, keyword.value)
            continue
        several = resolve(keyword.value).each_named()
        if several is None:
            are_all_named = False
        else:
            named |= {name: _known(found) for name, found in several.items()}
    last: list[LazyArgument] = []
    if not are_all_positional:
        behind = takewhile(lambda argument: not isinstance(argument, ast.Starred), reversed(call.args))
        last = [_later(resolve, argument) for argument in behind]
    return CallArguments(tuple(positional), named, are_all_positional, are_all_named, tuple(reversed(last)))


def function_arguments(function: FunctionType, arguments: CallArguments) -> dict[str, LazyArgument]:
    """Return the arguments of a function by parameter name, defaults included; unknown ones are left out."""
    code, name = function.__code__, function.__qualname__
    defaults = _defaults(function)
    positional = code.co_varnames[: code.co_argcount]
    by_name = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
    found = dict(zip(positional, arguments.positional, strict=False))
    found |= {each: known for each, known in arguments.named.items() if each in by_name}
    for parameter, value in defaults.items():
        is_left = arguments.are_all_named and (arguments.are_all_positional or parameter not in positional)
        if parameter not in found and is_left:
            found[parameter] = _known(Resolved(value, DefaultOf(name, parameter)))
    several, named = _gathering(code)
    if several is not None and arguments.are_all_positional:
        found[several] = lambda: Resolved(items=tuple(each() for each in arguments.positional[code.co_argcount :]))
    if named is not None and arguments.are_all_named:
        rest = {each: known for each, known in arguments.named.items() if each not in by_name}
        found[named] = lambda: Resolved(named={each: known() for each, known in rest.items()})
    return found


def _gathering(code: CodeType) -> tuple[str | None, str | None]:
    """Return the names of a function's ``*args`` and ``**kwargs``; None where it has none."""
    place = code.co_argcount + code.co_kwonlyargcount
    several = code.co_varnames[place] if code.co_flags & inspect.CO_VARARGS else None
    place += several is not None
    return several, code.co_varnames[place] if code.co_flags & inspect.CO_VARKEYWORDS else None


def _defaults(function: FunctionType) -> dict[str, object]:
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return {**dict(zip(names, values, strict=True)), **(function.__kwdefaults__ or {})}


def _later(resolve: Callable[[ast.expr], Resolved], expression: ast.expr) -> LazyArgument:
    return lambda: resolve(expression)


def _known(found: Resolved) -> LazyArgument:
    return lambda: found
