"""Emit the original's functions."""

from __future__ import annotations

from collections.abc import Collection

from port.translation.codegen.docstrings import docstring
from port.translation.codegen.imports import Imports
from port.translation.codegen.shorter import shortened_calls
from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.structure.call_annotations import RETURN
from port.translation.structure.written_function import FunctionParameter, WrittenFunction


def definition(made: WrittenFunction, imports: Imports) -> syntax.FunctionDef:
    """Return the definition of a function.

    Args:
        made: the function.
        imports: collect the imports of what it reads.
    """
    body = [shortened_calls(statement, {}) for statement in (*made.statements, syntax.Return(made.returns))]
    parameters = tuple(_parameter(each, made, imports) for each in made.parameters)
    statements = (syntax.Docstring(docstring(made.original)), *map(imports.read, body))
    return syntax.FunctionDef(made.name, parameters, statements, returns=_returned(made, imports))


def _parameter(parameter: FunctionParameter, made: WrittenFunction, imports: Imports) -> syntax.Parameter:
    name = parameter.name.lstrip("*")
    stars = parameter.name.removesuffix(name)
    default = None if parameter.default is None else imports.read(parameter.default)
    annotation = code("jax.Array") if stars == "*" else syntax.Name("Any")
    if not stars:
        annotation = _annotation(made.annotations.get(name, frozenset()))
    kind = stars or ("name" if parameter.by_name else "")
    return syntax.Parameter(parameter.own, _read(annotation, imports), default, kind=kind)


def _returned(made: WrittenFunction, imports: Imports) -> syntax.Expr:
    """Return the annotation of the result: one array, or ``Any``."""
    annotation = _annotation(made.annotations.get(RETURN, frozenset()))
    is_one = isinstance(annotation, syntax.Attribute | syntax.Name)
    is_one = is_one and not isinstance(made.returns, syntax.Tuple | syntax.Dict | syntax.List)
    return _read(annotation if is_one else syntax.Name("Any"), imports)


def _annotation(kinds: Collection[str]) -> syntax.Expr:
    some = sorted(set(kinds) - {"None"})
    if some == ["float", "int"]:
        some = ["float"]
    text = some[0] if len(some) == 1 else "Any"
    return code(f"{text} | None" if "None" in kinds and text != "Any" else text)


def _read(annotation: syntax.Expr, imports: Imports) -> syntax.Expr:
    if annotation == syntax.Name("Any"):
        imports.line("from typing import Any")
    return imports.read(annotation)
