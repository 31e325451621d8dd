"""The numbers among a step's arguments, with their origins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from port.translation.ir.origin import DefaultOf, Origin
from port.translation.ir.origin_numbers import with_origin

Path: TypeAlias = tuple[str | int, ...]
"""The path to a number in a tree of arguments: ``("size", 2)``; a call's positional arguments are numbered."""
ROUNDS = "rounds of the loops around"
"""Begins the path to the number of iterations of an enclosing loop, counted from the innermost, 0."""


@dataclass(frozen=True)
class KnownNumber:
    """A number and its origin.

    Attributes:
        value: the number for which the origin was found.
        origin: the original's source for it.
    """

    value: int | float | bool
    origin: Origin


Numbers: TypeAlias = Mapping[Path, KnownNumber]
"""Path → number with a known origin. A pass may change the arguments and keep this mapping: see `origin_at`."""


def origin_at(numbers: Numbers, path: Path, value: Any) -> Origin | None:
    """Return the origin of a number; None if it is unknown, or belongs to another value.

    Args:
        numbers: the step's known numbers.
        path: the number's path in the arguments.
        value: the number at that path now.
    """
    known = numbers.get(path)
    return known.origin if known is not None and is_same(known.value, value) else None


def with_origins(tree: Any, numbers: Numbers, path: Path = ()) -> Any:
    """Attach known origins to the numbers in a tree: see `port.translation.ir.origin_numbers`.

    Args:
        tree: arguments of a step, or a part of them.
        numbers: the step's known numbers.
        path: the tree's path in the arguments.
    """
    match tree:
        case bool():
            return tree
        case int() | float():
            origin = origin_at(numbers, path, tree)
            is_torchs = isinstance(origin, DefaultOf) and origin.is_of_operator
            return tree if is_torchs else with_origin(tree, origin)
        case tuple() | list():
            items = (with_origins(item, numbers, (*path, place)) for place, item in enumerate(tree))
            return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
        case dict():
            return {key: with_origins(item, numbers, (*path, key)) for key, item in tree.items()}
        case slice():
            return slice(
                *(with_origins(getattr(tree, end), numbers, (*path, end)) for end in ("start", "stop", "step"))
            )
    return tree


def each_number(tree: Any, path: Path = ()) -> Iterator[tuple[Path, int | float | bool]]:
    """Yield the numbers in a tree of tuples, lists, dicts and slices with their paths, from left to right."""
    match tree:
        case bool() | int() | float() if type(tree) in (bool, int, float):
            yield path, tree
        case tuple() | list():
            for place, item in enumerate(tree):
                yield from each_number(item, (*path, place))
        case dict():
            for key, item in tree.items():
                yield from each_number(item, (*path, key))
        case slice():
            for name in ("start", "stop", "step"):
                yield from each_number(getattr(tree, name), (*path, name))


def agreed(several: Sequence[Numbers]) -> dict[Path, KnownNumber]:
    """Return the known numbers that several steps have in common."""
    first, *others = several
    return {path: number for path, number in first.items() if all(other.get(path) == number for other in others)}


def rounds_said(several: Sequence[Numbers], count: int) -> KnownNumber | None:
    """Return the origin of a loop's length: that of the innermost source loop around all steps with this length.

    Args:
        several: the known numbers of the iteration's steps that are inside a loop of the source.
        count: the loop's length.
    """
    around = [_rounds(numbers) for numbers in several]
    first, *others = [each for each in around if each] or [[]]
    return next((known for known in first if known.value == count and all(known in each for each in others)), None)


def _rounds(numbers: Numbers) -> list[KnownNumber]:
    """Return the lengths of the enclosing loops, the innermost first."""
    return [numbers[path] for path in sorted(path for path in numbers if path[0] == ROUNDS)]  # type: ignore[type-var]


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are the same number to an operator: 1 is 1.0, but not True."""
    kinds = {type(one), type(other)}
    if not kinds <= {bool, int, float} or (bool in kinds and len(kinds) > 1):
        return False
    return bool(one == other) or (one != one and other != other)
