"""What a call gives to each parameter of what it calls."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from types import CodeType, FunctionType

from port.translation.frontend.origins.resolved import Resolved
from port.translation.ir.origin import DefaultOf

Given = Callable[[], Resolved]
"""What is known of an argument, worked out when it is asked for."""


@dataclass(frozen=True)
class CallArguments:
    """The arguments of a call, those behind stars one by one.

    Attributes:
        positional: in their order.
        named: by name.
        are_all_positional: whether none is left out, as those behind a star are that nothing is known of.
        are_all_named: the same of those by name.
        last: where it is not known how many there are, the last ones.
    """

    positional: tuple[Given, ...] = ()
    named: Mapping[str, Given] = field(default_factory=dict)
    are_all_positional: bool = True
    are_all_named: bool = True
    last: tuple[Given, ...] = ()

    def behind(self, first: Sequence[Resolved]) -> CallArguments:
        """The same with others in front, as a method's own object is."""
        return CallArguments(
            (*(_known(found) for found in first), *self.positional),
            self.named,
            self.are_all_positional,
            self.are_all_named,
            self.last,
        )


def call_arguments(call: ast.Call, resolve: Callable[[ast.expr], Resolved]) -> CallArguments:
    """The arguments of a call.

    Args:
        call: of the source.
        resolve: what is known of an expression that stands where the call does.
    """
    positional: list[Given] = []
    named: dict[str, Given] = {}
    are_all_positional = are_all_named = True
    for argument in call.args:
        if not isinstance(argument, ast.Starred):
            positional.append(_later(resolve, argument))
            continue
        items = resolve(argument.value).each_item()
        if items is None:
            are_all_positional = False  # nor is it known which ones the following are
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
    last: list[Given] = []
    if not are_all_positional:
        behind = takewhile(lambda argument: not isinstance(argument, ast.Starred), reversed(call.args))
        last = [_later(resolve, argument) for argument in behind]
    return CallArguments(tuple(positional), named, are_all_positional, are_all_named, tuple(reversed(last)))


def given_to_function(function: FunctionType, arguments: CallArguments) -> dict[str, Given]:
    """What each parameter of a function is given, by its name; those of which nothing is known are not among them."""
    code, name = function.__code__, function.__qualname__
    defaults = _defaults(function)
    positional = code.co_varnames[: code.co_argcount]
    by_name = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
    given = dict(zip(positional, arguments.positional, strict=False))
    given |= {each: known for each, known in arguments.named.items() if each in by_name}
    for parameter, value in defaults.items():
        is_left = arguments.are_all_named and (arguments.are_all_positional or parameter not in positional)
        if parameter not in given and is_left:
            given[parameter] = _known(Resolved(value, DefaultOf(name, parameter)))
    several, named = _gathering(code)
    if several is not None and arguments.are_all_positional:
        given[several] = lambda: Resolved(items=tuple(each() for each in arguments.positional[code.co_argcount :]))
    if named is not None and arguments.are_all_named:
        rest = {each: known for each, known in arguments.named.items() if each not in by_name}
        given[named] = lambda: Resolved(named={each: known() for each, known in rest.items()})
    return given


def _gathering(code: CodeType) -> tuple[str | None, str | None]:
    """The names of ``*args`` and ``**kwargs``."""
    place = code.co_argcount + code.co_kwonlyargcount
    several = code.co_varnames[place] if code.co_flags & inspect.CO_VARARGS else None
    place += several is not None
    return several, code.co_varnames[place] if code.co_flags & inspect.CO_VARKEYWORDS else None


def _defaults(function: FunctionType) -> dict[str, object]:
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return {**dict(zip(names, values, strict=True)), **(function.__kwdefaults__ or {})}


def _later(resolve: Callable[[ast.expr], Resolved], expression: ast.expr) -> Given:
    return lambda: resolve(expression)


def _known(found: Resolved) -> Given:
    return lambda: found
