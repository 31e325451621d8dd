"""Frozen nodes, which all that is written is made of, and the walks over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar


class Node:
    """A part of what is written. Its parts are its fields: nodes, tuples of nodes, and words."""

    __slots__ = ()


class Expr(Node):
    """An expression."""

    __slots__ = ()


class Stmt(Node):
    """A statement."""

    __slots__ = ()


N = TypeVar("N", bound=Node)


def fields_of(node: Node) -> tuple[str, ...]:
    """The names of a node's fields, in the order in which they are written."""
    names: tuple[str, ...] = type(node).__match_args__  # type: ignore[attr-defined]
    return names


def children(node: Node) -> list[Node]:
    """The nodes right beneath one, from left to right."""
    found: list[Node] = []
    for name in fields_of(node):
        part = getattr(node, name)
        if isinstance(part, Node):
            found.append(part)
        elif type(part) is tuple:
            found += [item for item in part if isinstance(item, Node)]
    return found


def walk(*nodes: Node | None) -> Iterator[Node]:
    """Nodes and all beneath them, from left to right, each before those inside it."""
    waiting: list[Node | None] = [*reversed(nodes)]
    while waiting:
        node = waiting.pop()
        if node is not None:
            yield node
            waiting += reversed(children(node))


def with_parts(node: N, function: Callable[[Any], Any]) -> N:
    """A node with each node right beneath it replaced; the same node where nothing changes."""
    changed = False
    parts: list[Any] = []
    for name in fields_of(node):
        part = getattr(node, name)
        made = part
        if isinstance(part, Node):
            made = function(part)
            changed |= made is not part
        elif type(part) is tuple:
            items = [function(item) if isinstance(item, Node) else item for item in part]
            if any(new is not old for new, old in zip(items, part, strict=True)):
                made, changed = tuple(items), True
        parts.append(made)
    return type(node)(*parts) if changed else node


def transformed(node: N, function: Callable[[Any], Any]) -> N:
    """A node with all beneath it replaced, and then itself: the innermost first, from left to right."""
    made: N = function(with_parts(node, lambda part: transformed(part, function)))
    return made
