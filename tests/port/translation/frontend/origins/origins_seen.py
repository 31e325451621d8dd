"""The origins that a capture finds."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from port.translation.frontend.diagnostics import BothModes
from port.translation.frontend.leaf_modules import kept_layers
from port.translation.ir.graph import Graph, LayerCall, Operation, each_step, numbers_of
from port.translation.ir.module_calls import ScopeEnter
from port.translation.ir.number import Path as NumberPath
from port.translation.ir.origin import LiteralAt, Origin, WorkedOut, said


def graph_of(module: Any, *args: Any, training: bool = False) -> Graph:
    """The graph of a module, with all lengths fixed."""
    return BothModes(module, args, {}, layers=kept_layers(module)).graph(training=training)


def numbers_seen(graph: Graph, what: str) -> list[dict[NumberPath, Origin | None]]:
    """The origins of the numbers of each operator with a name, or of each call of the module at a path."""
    found = []
    for step in each_step(graph.steps):
        if isinstance(step, Operation) and step.operator.split(".")[1] == what:
            found.append(step)
        elif isinstance(step, LayerCall | ScopeEnter) and getattr(step, "key", step.path) == what:
            found.append(step)  # type: ignore[arg-type]
    return [{path: origin for path, _, origin in numbers_of(step)} for step in found]


def said_of(graph: Graph, what: str, name: str | int, scope: str = "") -> list[Any]:
    """The origin of one argument of each, a literal as ``<3>``; None if unknown, a list for several numbers."""
    found = []
    for numbers in numbers_seen(graph, what):
        items = [
            None if origin is None else _text(origin, scope) for path, origin in numbers.items() if path[0] == name
        ]
        found.append(items[0] if (name,) in numbers else items)
    return found


def _text(origin: Origin, scope: str) -> str:
    text = said(origin, scope)
    for literal in _literals(origin):
        text = text.replace(said(literal), f"<{_written(literal)}>")
    return text


def _literals(origin: Origin) -> Iterator[LiteralAt]:
    if isinstance(origin, LiteralAt):
        yield origin
    if isinstance(origin, WorkedOut):
        for operand in origin.operands:
            yield from _literals(operand)


def _written(literal: LiteralAt) -> str:
    """The source text at a literal's location."""
    tree = ast.parse(Path(literal.location.file).read_text(encoding="utf-8"))
    here = literal.location.line, literal.column
    found = [node for node in ast.walk(tree) if isinstance(node, ast.expr) and (node.lineno, node.col_offset) == here]
    return next(ast.unparse(node) for node in found if isinstance(node, ast.Constant | ast.UnaryOp | ast.Call))
