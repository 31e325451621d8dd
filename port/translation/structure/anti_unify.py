"""Several sources that differ in numbers alone, as one with holes in the numbers' places."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, field
from typing import Any


class Differ(Exception):
    """Two sources that are not the same but for numbers."""


@dataclass(frozen=True)
class Hole:
    """A place where the sources have other numbers: the numbers, and what is known of the place.

    Attributes:
        values: of each source, in their order.
        where: the attribute, and the keyword within it.
    """

    values: tuple[Any, ...]
    where: tuple[str, ...]


@dataclass
class Holes:
    """The distinct ones, each with a name of its own: ``<0>``, ``<1>``; equal numbers share one."""

    found: list[Hole] = field(default_factory=list)

    def name(self, values: tuple[Any, ...], where: tuple[str, ...]) -> str:
        key = tuple((type(value), value) for value in values)
        for number, hole in enumerate(self.found):
            if tuple((type(value), value) for value in hole.values) == key:
                return f"<{number}>"
        self.found.append(Hole(values, where))
        return f"<{len(self.found) - 1}>"


class PartOfThem(Holes):
    """The holes of statements that some of the sources have: the others have None there."""

    def __init__(self, whole: Holes, places: list[int], count: int) -> None:
        super().__init__(whole.found)
        self.places, self.count = places, count

    def name(self, values: tuple[Any, ...], where: tuple[str, ...]) -> str:
        for number, hole in enumerate(self.found):
            known = [hole.values[place] for place in self.places]
            if all(type(mine) is type(theirs) and mine == theirs for mine, theirs in zip(known, values, strict=True)):
                return f"<{number}>"
        given = dict(zip(self.places, values, strict=True))
        return super().name(tuple(given.get(place) for place in range(self.count)), where)


def unified(trees: list[ast.AST], holes: Holes, where: tuple[str, ...] = ()) -> ast.AST:
    """One tree for several.

    Raises:
        Differ: they differ in more than numbers; no hole is left of the attempt.
    """
    known = len(holes.found)
    try:
        return _unified(trees, holes, where)
    except Differ:
        del holes.found[known:]
        raise


def _unified(trees: list[ast.AST], holes: Holes, where: tuple[str, ...]) -> ast.AST:
    first = trees[0]
    if all(isinstance(tree, ast.Constant | ast.UnaryOp) and _number(tree) is not _NONE for tree in trees):
        values = tuple(_number(tree) for tree in trees)
        if all(type(value) is type(values[0]) and value == values[0] for value in values):
            return copy.deepcopy(first)
        return ast.Name(holes.name(values, where))
    if any(type(tree) is not type(first) for tree in trees):
        raise Differ
    made = copy.copy(first)
    for name in first._fields:
        parts = [getattr(tree, name, None) for tree in trees]
        inside = where
        if isinstance(first, ast.keyword) and first.arg and name == "value":
            inside = (*where, first.arg)
        setattr(made, name, _part(parts, holes, inside))
    return made


def _part(parts: list[Any], holes: Holes, where: tuple[str, ...]) -> Any:
    first = parts[0]
    if isinstance(first, ast.AST):
        if not all(isinstance(part, ast.AST) for part in parts):
            raise Differ
        return _unified(parts, holes, where)
    if isinstance(first, list):
        if any(not isinstance(part, list) or len(part) != len(first) for part in parts):
            raise Differ
        return [_part(list(together), holes, where) for together in zip(*parts, strict=True)]
    if any(part != first for part in parts):
        raise Differ
    return first


_NONE = object()


def _number(tree: ast.AST) -> Any:
    """The number, string or None that a tree is."""
    if isinstance(tree, ast.Constant):
        return tree.value
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub) and isinstance(tree.operand, ast.Constant):
        value = tree.operand.value
        return -value if isinstance(value, int | float) else _NONE
    return _NONE


def with_names(tree: Any, names: dict[str, Any]) -> Any:
    """A copy with the holes named, or filled with expressions."""

    class Naming(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            if node.id not in names:
                return node
            name = names[node.id]
            return ast.Name(name) if isinstance(name, str) else copy.deepcopy(name)

    return Naming().visit(copy.deepcopy(tree))
