"""Find the attributes that the written source reads."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from port.translation.ir import syntax
from port.translation.structure.class_merge import FoldedClass


def attributes_read(made: FoldedClass) -> set[str]:
    """The attributes of ``self`` that a class's call reads."""
    body = made.body
    return set() if body is None else attributes_in((*body.statements, body.returns))


def attributes_of_all(made: FoldedClass) -> set[str]:
    """The names of all attributes that a class's call reads, of any object."""
    body = made.body
    nodes = () if body is None else syntax.walk(*body.statements, body.returns)
    return {node.attr for node in nodes if isinstance(node, syntax.Attribute)}


def attributes_in(trees: Iterable[syntax.Node | None]) -> set[str]:
    """The attributes of ``self`` that statements and expressions read."""
    nodes = syntax.walk(*trees)
    return {node.attr for node in nodes if isinstance(node, syntax.Attribute) and node.value == syntax.Name("self")}


def attributes_of_any(trees: Sequence[syntax.Node]) -> set[str]:
    """The names of all attributes, of any object, that the original's statements among some trees read."""
    nodes = (node for text in texts_in(trees) for node in ast.walk(ast.parse(text)))
    said = {node.attr for node in syntax.walk(*trees) if isinstance(node, syntax.Attribute)}  # initial values
    return said | {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}


def texts_in(trees: Sequence[syntax.Node]) -> list[str]:
    """The original's statements among some trees, as text."""
    return [node.text for node in syntax.walk(*trees) if isinstance(node, syntax.Lines)]
