"""Numbers among a step's arguments, each beside its origin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from port.translation.ir.origin import DefaultOf, Origin
from port.translation.ir.origin_numbers import with_origin

Path: TypeAlias = tuple[str | int, ...]
"""The way to a number in a tree of arguments: ``("size", 2)``; a call's positional arguments are numbered."""
ROUNDS = "rounds of the loops around"
"""Begins the way to a number that is no argument: of the rounds of a loop that a call stands in, the innermost 0."""


@dataclass(frozen=True)
class KnownNumber:
    """A number, and where it comes from.

    Attributes:
        value: for which the origin was found.
        origin: what the source says for it.
    """

    value: int | float | bool
    origin: Origin


Numbers: TypeAlias = Mapping[Path, KnownNumber]
"""The numbers whose origin is known, by where they stand. A step that is changed may keep it: see `origin_at`."""


def origin_at(numbers: Numbers, path: Path, value: Any) -> Origin | None:
    """The origin of a number that stands in a tree; None where it is not known, or of another number.

    Args:
        numbers: of the step.
        path: where the number stands.
        value: of the number that stands there now.
    """
    known = numbers.get(path)
    return known.origin if known is not None and is_same(known.value, value) else None


def with_origins(tree: Any, numbers: Numbers, path: Path = ()) -> Any:
    """A tree whose numbers remember their origins, where those are known: see `port.translation.ir.origin_numbers`.

    Args:
        tree: of a step's arguments.
        numbers: of the step.
        path: where the tree stands among the arguments.
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
    """The numbers in a tree of tuples, lists, dicts and slices, from left to right, each with the way to it."""
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
    """The numbers of which several steps say the same, as one step in the place of all may."""
    first, *others = several
    return {path: number for path, number in first.items() if all(other.get(path) == number for other in others)}


def rounds_said(several: Sequence[Numbers], count: int) -> KnownNumber | None:
    """Where the number of a loop's rounds comes from: of loops with as many, the innermost that all steps stand in.

    Args:
        several: of the steps of a round that are in a loop of the source's.
        count: of the rounds.
    """
    around = [_rounds(numbers) for numbers in several]
    first, *others = [each for each in around if each] or [[]]
    return next((known for known in first if known.value == count and all(known in each for each in others)), None)


def _rounds(numbers: Numbers) -> list[KnownNumber]:
    """From the innermost loop out."""
    return [numbers[path] for path in sorted(path for path in numbers if path[0] == ROUNDS)]  # type: ignore[type-var]


def is_same(one: Any, other: Any) -> bool:
    """Whether two things are the same number; True is not 1, but 1 is 1.0, as an operator takes it."""
    kinds = {type(one), type(other)}
    if not kinds <= {bool, int, float} or (bool in kinds and len(kinds) > 1):
        return False
    return bool(one == other) or (one != one and other != other)
