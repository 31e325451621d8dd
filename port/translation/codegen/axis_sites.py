"""Find where generated source constructs its parameters and layers, and where it calls them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from port.translation.codegen.module_of_source import loaded

METADATA = "_metadata"
"""The suffix of a Flax layer's metadata arguments, as in ``kernel_metadata``."""
BY_PATH = "metadata"
"""The metadata argument of a layer that is made of other layers: path of a parameter → its metadata."""
WRAP = "wrap"
"""Its argument for `port.nn.gathered`, with which it calls those that a mesh must not divide for the call."""
Edit = tuple[int, str]
"""An insertion: its byte offset in the source, and the text."""


@dataclass(frozen=True)
class Site:
    """The construction of a layer or a parameter.

    Attributes:
        call: the constructor's call.
        variables: the layer's variables that take metadata; empty for a parameter.
        is_by_path: whether the layer takes them by path instead, in `BY_PATH`.
    """

    call: ast.Call
    variables: tuple[str, ...]
    is_by_path: bool = False


def sites_of(source: str) -> list[Site]:
    """Return the constructions in a source, in the order of the source."""
    module = loaded(source, "sites")
    return list(_sites(ast.parse(source), module))


def calls_of(source: str) -> list[ast.Call]:
    """Return the calls of submodules, ``self.layer(x)`` or ``self.layers["a"](x)``, in the order of the source."""
    found = []
    for made in (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)):
        for method in (node for node in made.body if isinstance(node, ast.FunctionDef) and node.name != "__init__"):
            found += [node for node in ast.walk(method) if isinstance(node, ast.Call) and _is_submodule(node.func)]
    return sorted(found, key=_place)


def with_keywords(source: str, call: ast.Call, keywords: Sequence[str]) -> Edit:
    """Return the edit that adds keywords to a call, before any ``**options``."""
    text = ", ".join(keywords)
    unpacked = next((each.value for each in call.keywords if each.arg is None), None)
    if unpacked is not None:
        return place_of(source, unpacked.lineno, unpacked.col_offset) - len("**"), f"{text}, "
    end = end_of(source, call) - 1
    before = source.encode()[:end].rstrip()
    return end, text if before.endswith((b",", b"(")) else f", {text}"


def place_of(source: str, line: int, column: int) -> int:
    """Return the byte offset of a line and column in the source."""
    return sum(len(each.encode()) for each in source.splitlines(keepends=True)[: line - 1]) + column


def end_of(source: str, node: ast.expr) -> int:
    """Return the byte offset at which an expression ends."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return place_of(source, node.end_lineno, node.end_col_offset)


def edited(source: str, edits: Sequence[Edit]) -> str:
    """Apply edits to a source."""
    text = source.encode()
    for place, inserted in sorted(edits, key=lambda edit: edit[0], reverse=True):
        text = text[:place] + inserted.encode() + text[place:]
    return text.decode()


def _sites(tree: ast.Module, module: ModuleType) -> Iterator[Site]:
    from flax import nnx

    from port.nn import Frozen

    for call in sorted((node for node in ast.walk(tree) if isinstance(node, ast.Call)), key=_place):
        made = _resolved(call.func, module)
        if not isinstance(made, type):
            continue
        if issubclass(made, nnx.Param | Frozen):
            yield Site(call, ())
        elif issubclass(made, nnx.Module):
            taken = inspect.signature(made.__init__).parameters
            if BY_PATH in taken:
                yield Site(call, (), is_by_path=True)
            elif names := tuple(name.removesuffix(METADATA) for name in taken if name.endswith(METADATA)):
                yield Site(call, names)


def _place(node: ast.Call) -> tuple[int, int, int, int]:
    return node.lineno, node.col_offset, -(node.end_lineno or 0), -(node.end_col_offset or 0)


def _is_submodule(called: ast.expr) -> bool:
    held = called
    while isinstance(held, ast.Attribute | ast.Subscript):
        held = held.value
    return held is not called and isinstance(held, ast.Name) and held.id == "self"


def _resolved(name: ast.expr, module: ModuleType) -> Any:
    """Resolve a dotted name in the executed source."""
    match name:
        case ast.Name(text):
            return getattr(module, text, None)
        case ast.Attribute(value, attribute):
            return getattr(_resolved(value, module), attribute, None)
    return None
