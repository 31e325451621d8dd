"""Options of the root's call that no example call varied: the written call takes them, and rejects other values."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import names_in
from port.translation.ir.source_location import SourceLocation
from port.translation.structure.branches import branches_of
from port.translation.structure.cases import Held, default_of, name_of
from port.translation.structure.written_body import Body


@dataclass(frozen=True)
class Untaken:
    """An option of the original's ``forward`` that is the same in every example call.

    Attributes:
        name: the parameter's name.
        held: its value in all of them: a constant.
        branch: the original's test that reads it, as source; empty where it is used elsewhere.
        place: the line of that test, or of the function.
    """

    name: str
    held: syntax.Expr
    branch: str
    place: SourceLocation | None

    def __str__(self) -> str:
        where = f" ({self.place})" if self.place is not None else ""
        what = f"`if {self.branch}`" if self.branch else f"another {self.name}"
        return f"{what}{where}: every example call has {self.only}"

    @property
    def only(self) -> str:
        """The value in all example calls: ``pool='mean'``."""
        return f"{self.name}={syntax.source(self.held)}"

    @property
    def is_other(self) -> syntax.Expr:
        """The test of whether it has another value."""
        own = name_of(self.name)
        match self.held:
            case syntax.Const(None):
                return syntax.Compare(own, ("is not",), (self.held,))
            case syntax.Const(True):
                return syntax.UnaryOp("not", own)
            case syntax.Const(False):
                return own
        return syntax.Compare(own, ("!=",), (self.held,))


def guards(options: Sequence[Untaken]) -> list[syntax.Stmt]:
    """The statement that raises if an option has a value that no example call has."""
    if not options:
        return []
    tests = tuple(option.is_other for option in options)
    test = tests[0] if len(tests) == 1 else syntax.BoolOp("or", tests)
    sentence = f"translated for {', '.join(option.only for option in options)}: no example call gives another"
    error = syntax.Call(syntax.Name("NotImplementedError"), (syntax.Const(sentence),))
    return [syntax.If(test, (syntax.Raise(error),))]


def untaken_options(module: Any, cases: Sequence[Mapping[str, Held]], root: Body) -> tuple[Untaken, ...]:
    """The options whose other values were not translated, in the order of ``forward``.

    Args:
        module: the root module.
        cases: the values of its parameters in each example call.
        root: the body of its call.
    """
    forward = type(module).forward
    read = branches_of(forward).names
    taken = {name.lstrip("*") for name in root.parameters}
    found = []
    for name, parameter in inspect.signature(forward).parameters.items():
        held = tuple(dict.fromkeys(case.get(name) for case in cases))
        constants = tuple(value for value in held if isinstance(value, syntax.Expr))
        is_named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if len(constants) < len(held) or not is_named or name not in read:
            continue
        if name not in taken and len(held) == 1 and default_of(forward, name) is not None:
            found.append(Untaken(name, constants[0], *_branch(forward, name)))
    return tuple(found)


def _branch(forward: Any, name: str) -> tuple[str, SourceLocation | None]:
    """The first test that reads a parameter, and its line; without one, the function's line."""
    forward = inspect.unwrap(forward)
    branches = branches_of(forward)
    for test in branches.tests:
        if test.expression is not None and name in names_in(test.expression):
            return test.text, SourceLocation(branches.file, test.line)
    try:
        return "", SourceLocation(inspect.getsourcefile(forward) or "", inspect.getsourcelines(forward)[1])
    except (OSError, TypeError):
        return "", None
