"""Anti-unification: merge sources that differ only in numbers into one source with holes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from port.translation.ir import syntax
from port.translation.ir.expr import dotted
from port.translation.ir.origin_numbers import plain, with_origin

N = TypeVar("N", bound=syntax.Node)


class Differ(Exception):
    """The sources differ in more than numbers."""


@dataclass(frozen=True)
class Difference:
    """A hole: the number of each source, and its place in the source.

    Attributes:
        values: the number of each source, in order.
        where: the attribute, and the keyword within it.
        numbers: the values, each with its origin where that is known.
    """

    values: tuple[Any, ...]
    where: tuple[str, ...]
    numbers: tuple[Any, ...] = field(default=(), compare=False)


@dataclass
class Holes:
    """The distinct holes, named by their index; equal rows of numbers share one."""

    found: list[Difference] = field(default_factory=list)

    def hole(self, values: tuple[Any, ...], where: tuple[str, ...]) -> syntax.Hole:
        """The hole for these numbers, one per source."""
        for number, hole in enumerate(self.found):
            if _are_same(hole.values, values):
                return numbered(number)
        self.found.append(Difference(tuple(map(plain, values)), where, values))
        return numbered(len(self.found) - 1)


def numbered(number: int) -> syntax.Hole:
    """The hole with an index."""
    return syntax.Hole(str(number))


class PartialHoles(Holes):
    """Holes of statements that only some of the sources have; the other sources have None there."""

    def __init__(self, whole: Holes, places: list[int], count: int) -> None:
        super().__init__(whole.found)
        self.places, self.count = places, count

    def hole(self, values: tuple[Any, ...], where: tuple[str, ...]) -> syntax.Hole:
        for number, hole in enumerate(self.found):
            if _are_same([hole.values[place] for place in self.places], values):
                return numbered(number)
        present = dict(zip(self.places, values, strict=True))
        return super().hole(tuple(present.get(place) for place in range(self.count)), where)


def _are_same(known: Sequence[Any], values: Sequence[Any]) -> bool:
    """Whether two rows of numbers are equal in value and type (1 is not 1.0), whatever their origins."""
    numbers = map(plain, values)
    return all(type(one) is type(other) and one == other for one, other in zip(known, numbers, strict=True))


def unified(trees: Sequence[N], holes: Holes, where: tuple[str, ...] = ()) -> N:
    """Merge several trees into one.

    Raises:
        Differ: they differ in more than numbers; holes made during the attempt are removed.
    """
    known = len(holes.found)
    try:
        made: N = _unified(trees, holes, where)
        return made
    except Differ:
        del holes.found[known:]
        raise


def _unified(trees: Sequence[Any], holes: Holes, where: tuple[str, ...]) -> Any:
    first = trees[0]
    if all(tree == first for tree in trees):
        return first
    numbers = tuple(map(_number, trees))
    if all(number is not _NONE for number in numbers):
        return holes.hole(numbers, where)
    if any(type(tree) is not type(first) for tree in trees):
        raise Differ
    if isinstance(first, syntax.Keyword):
        where = (*where, first.arg) if first.arg else where
    if isinstance(first, syntax.Call) and dotted(first.func) in _ONLY:
        where = (*where, _ONLY[dotted(first.func)])
    return type(first)(
        *(_part([getattr(tree, name) for tree in trees], holes, where) for name in syntax.fields_of(first))
    )


def _part(parts: list[Any], holes: Holes, where: tuple[str, ...]) -> Any:
    first = parts[0]
    if isinstance(first, syntax.Node):
        return _unified(parts, holes, where)
    if isinstance(first, tuple):
        if any(not isinstance(part, tuple) or len(part) != len(first) for part in parts):
            raise Differ
        return tuple(_part(list(together), holes, where) for together in zip(*parts, strict=True))
    if any(part != first for part in parts):
        raise Differ
    return first


_ONLY = {"nnx.initializers.normal": "std"}
"""The name of a function's only argument."""
_NONE = object()


def _number(tree: syntax.Node) -> Any:
    """The number, string or None that a tree consists of; a number keeps its origin."""
    match tree:
        case syntax.Const(value):
            return with_origin(value, tree.origin)
        case syntax.UnaryOp("-", syntax.Const(int() | float() as value) as number):
            return -with_origin(value, number.origin)
    return _NONE


def without_numbers(tree: N, *, none_too: bool) -> N:
    """Replace every number by 0, so that trees that differ only in numbers become equal.

    Args:
        tree: statements or expressions.
        none_too: whether None counts as a number.
    """

    def of(node: syntax.Node) -> syntax.Node:
        if not isinstance(node, syntax.Const) or isinstance(node.value, str) or (node.value is None and not none_too):
            return node
        return syntax.Const(0)

    return syntax.transformed(tree, of)
