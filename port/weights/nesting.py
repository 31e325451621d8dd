"""Dotted names and nested dicts: ``encoder.0.kernel`` ⇄ ``{"encoder": {"0": {"kernel": …}}}``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from port.errors import UsageError

Leaf = TypeVar("Leaf")


def nested(leaves: Mapping[str, Leaf]) -> dict[str, Any]:
    """Nest dicts by the segments of dotted names; numbers stay text.

    Raises:
        UsageError: a name is also the beginning of another ("a" and "a.b"), or has an empty segment.
    """
    tree: dict[str, Any] = {}
    for name, leaf in leaves.items():
        *parents, last = name.split(".")
        if "" in (*parents, last):
            raise UsageError(f"{name!r} cannot be nested at its dots: a part of it is empty")
        branch, above = tree, ""
        for parent in parents:
            above = f"{above}.{parent}" if above else parent
            if above in leaves:
                raise UsageError(f"{above!r} and {name!r} cannot both be nested at their dots: one is inside the other")
            branch = branch.setdefault(parent, {})
        branch[last] = leaf
    return tree


def flat(tree: Any, parts: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield every leaf of nested dicts and lists with its path; positions in lists are integers."""
    if isinstance(tree, dict):
        for key, branch in tree.items():
            yield from flat(branch, (*parts, str(key)))
    elif isinstance(tree, list | tuple):
        for position, branch in enumerate(tree):
            yield from flat(branch, (*parts, position))
    else:
        yield parts, tree


def dotted(parts: tuple[str | int, ...]) -> str:
    """Join a path to a name."""
    return ".".join(map(str, parts))
