"""Base classes of syntax nodes, and traversals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar


class Node:
    """A syntax node. Its fields are nodes, tuples of nodes, and plain values."""

    __slots__ = ()


class Expr(Node):
    """An expression."""

    __slots__ = ()


class Stmt(Node):
    """A statement."""

    __slots__ = ()


N = TypeVar("N", bound=Node)


def fields_of(node: Node) -> tuple[str, ...]:
    """Return the names of a node's fields, in order."""
    names: tuple[str, ...] = type(node).__match_args__  # type: ignore[attr-defined]
    return names


def children(node: Node) -> list[Node]:
    """Return a node's children, from left to right."""
    found: list[Node] = []
    for name in fields_of(node):
        part = getattr(node, name)
        if isinstance(part, Node):
            found.append(part)
        elif type(part) is tuple:
            found += [item for item in part if isinstance(item, Node)]
    return found


def walk(*nodes: Node | None) -> Iterator[Node]:
    """Yield nodes and their descendants in preorder, from left to right."""
    waiting: list[Node | None] = [*reversed(nodes)]
    while waiting:
        node = waiting.pop()
        if node is not None:
            yield node
            waiting += reversed(children(node))


def with_parts(node: N, function: Callable[[Any], Any]) -> N:
    """Replace each child of a node; return the same node if nothing changes."""
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
    """Transform a tree in postorder: first the descendants, from left to right, then the node itself."""
    made: N = function(with_parts(node, lambda part: transformed(part, function)))
    return made
