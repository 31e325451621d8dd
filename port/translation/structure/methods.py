"""A module's own methods (``attend`` in ``self.attend(q, k, v)``), kept at the top of its body until written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.lowered import LoweredGraph, Scan
from port.translation.ir.module_calls import FORWARD, ScopeEnter, key_of
from port.translation.structure.written_body import Body


class MethodsDiffer(Exception):
    """The instances of a class have methods of one name that do different things.

    Attributes:
        methods: `key_of` each of these methods.
    """

    def __init__(self, methods: set[str]) -> None:
        super().__init__(", ".join(sorted(methods)))
        self.methods = methods


def with_method(body: Body, name: str, method: Body) -> Body:
    """Put a method at the top of a module's body.

    Args:
        body: the body of its ``forward``.
        name: the method's name.
        method: the method's body.
    """
    modes = body.modes or method.modes
    return replace(body, statements=(_definition(name, method), *body.statements), modes=modes)


def split(body: Body) -> tuple[Body, dict[str, Body]]:
    """Separate a body from its methods."""
    methods = {each.name: _body(each) for each in body.statements if isinstance(each, syntax.MethodDef)}
    statements = tuple(each for each in body.statements if not isinstance(each, syntax.MethodDef))
    return (replace(body, statements=statements) if methods else body), methods


def each_function(body: Body, change: Callable[[str, Body], Body]) -> Body:
    """Change the code of ``forward`` and of each method separately.

    Args:
        body: a module's body.
        change: takes a method's name (``forward`` included) and its body.
    """
    forward, methods = split(body)
    made = change(FORWARD, forward)
    for name, method in reversed(methods.items()):
        made = with_method(made, name, change(name, method))
    return made


def has_methods(body: Body | None) -> bool:
    """Whether a body has methods at its top."""
    return body is not None and any(isinstance(each, syntax.MethodDef) for each in body.statements)


def methods_of(path: str, body: Body | None) -> set[str]:
    """`key_of` the methods at the top of a module's body."""
    return set() if body is None else {key_of(path, name) for name in split(body)[1]}


def is_conditional(statement: syntax.Stmt) -> bool:
    """Whether a method is under a condition, which a class cannot express."""
    inside = syntax.walk(statement) if isinstance(statement, syntax.If) else ()
    return any(isinstance(each, syntax.MethodDef) for each in inside)


def methods_called(runs: Iterable[LoweredGraph]) -> dict[str, set[str]]:
    """The methods that graphs call: path of a module → `key_of` each of its methods."""
    found: dict[str, set[str]] = {}
    for run in runs:
        waiting: list[Any] = list(run.steps)
        while waiting:
            step = waiting.pop()
            if isinstance(step, Scan):
                waiting += step.steps
            elif isinstance(step, ScopeEnter) and step.method != FORWARD:
                found.setdefault(step.path, set()).add(step.key)
    return found


def taken_names(called: Mapping[str, set[str]], runs: Iterable[LoweredGraph]) -> set[str]:
    """`key_of` the methods whose names are taken: in every Flax module, or by what a module holds in JAX only.

    Args:
        called: the result of `methods_called`.
        runs: the lowered graphs; what they add in JAX only (``dropout``) counts.
    """
    from flax import nnx

    names = {path: {*dir(nnx.Module), *(name for run in runs for name in run.extras.get(path, ()))} for path in called}
    return {key for path, keys in called.items() for key in keys & {key_of(path, name) for name in names[path]}}


def _definition(name: str, method: Body) -> syntax.MethodDef:
    last = () if method.returns is None else (syntax.Return(method.returns),)
    parameters = tuple(map(_parameter, method.parameters))
    return syntax.MethodDef(name, parameters, (*method.statements, *last))


def _parameter(name: str) -> syntax.Parameter:
    own = name.lstrip("*")
    return syntax.Parameter(own, kind=name.removesuffix(own))


def _body(method: syntax.MethodDef) -> Body:
    *statements, last = method.body
    parameters = tuple(f"{each.kind}{each.name}" for each in method.parameters)
    if isinstance(last, syntax.Return):
        return Body(parameters, tuple(statements), last.value)
    return Body(parameters, method.body, None)
