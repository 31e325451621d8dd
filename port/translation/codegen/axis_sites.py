"""Where a source makes its parameters, and calls its layers."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from port.translation.codegen.module_of_source import loaded

METADATA = "_metadata"
"""How the arguments of Flax's layers end that are a variable's metadata: ``kernel_metadata``."""
Edit = tuple[int, str]
"""A place in a source, in bytes, and what is put in there."""


@dataclass(frozen=True)
class Site:
    """Where a source constructs a layer or a parameter.

    Attributes:
        call: the construction.
        variables: those of a layer that take metadata; none for a parameter.
    """

    call: ast.Call
    variables: tuple[str, ...]


def sites_of(source: str) -> list[Site]:
    """The constructions in a source, in its order."""
    module = loaded(source, "sites")
    return list(_sites(ast.parse(source), module))


def calls_of(source: str) -> list[ast.Call]:
    """The calls of what a module holds, ``self.layer(x)`` or ``self.layers["a"](x)``, in the order of the source."""
    found = []
    for made in (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)):
        for method in (node for node in made.body if isinstance(node, ast.FunctionDef) and node.name != "__init__"):
            found += [node for node in ast.walk(method) if isinstance(node, ast.Call) and _is_held(node.func)]
    return sorted(found, key=_place)


def with_keywords(source: str, call: ast.Call, keywords: Sequence[str]) -> Edit:
    """More keywords in a call, before what is handed on (``**options``)."""
    said = ", ".join(keywords)
    handed_on = next((each.value for each in call.keywords if each.arg is None), None)
    if handed_on is not None:
        return place_of(source, handed_on.lineno, handed_on.col_offset) - len("**"), f"{said}, "
    end = end_of(source, call) - 1
    before = source.encode()[:end].rstrip()
    return end, said if before.endswith((b",", b"(")) else f", {said}"


def place_of(source: str, line: int, column: int) -> int:
    """A place of a syntax tree, in bytes from the start of its source."""
    return sum(len(each.encode()) for each in source.splitlines(keepends=True)[: line - 1]) + column


def end_of(source: str, node: ast.expr) -> int:
    """Where an expression ends."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return place_of(source, node.end_lineno, node.end_col_offset)


def edited(source: str, edits: Sequence[Edit]) -> str:
    """A source with what is put into it."""
    text = source.encode()
    for place, said in sorted(edits, key=lambda edit: edit[0], reverse=True):
        text = text[:place] + said.encode() + text[place:]
    return text.decode()


def _sites(tree: ast.Module, module: ModuleType) -> Iterator[Site]:
    from flax import nnx

    from port.nn import Frozen

    for call in sorted((node for node in ast.walk(tree) if isinstance(node, ast.Call)), key=_place):
        made = _meant(call.func, module)
        if not isinstance(made, type):
            continue
        if issubclass(made, nnx.Param | Frozen):
            yield Site(call, ())
        elif issubclass(made, nnx.Module):
            taken = inspect.signature(made.__init__).parameters
            if names := tuple(name.removesuffix(METADATA) for name in taken if name.endswith(METADATA)):
                yield Site(call, names)


def _place(node: ast.Call) -> tuple[int, int, int, int]:
    return node.lineno, node.col_offset, -(node.end_lineno or 0), -(node.end_col_offset or 0)


def _is_held(called: ast.expr) -> bool:
    held = called
    while isinstance(held, ast.Attribute | ast.Subscript):
        held = held.value
    return held is not called and isinstance(held, ast.Name) and held.id == "self"


def _meant(name: ast.expr, module: ModuleType) -> Any:
    """What a dotted name means in a source."""
    match name:
        case ast.Name(text):
            return getattr(module, text, None)
        case ast.Attribute(value, attribute):
            return getattr(_meant(value, module), attribute, None)
    return None
