"""The user's purely numeric functions run on numbers with origins; other functions are never called."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from port.translation.frontend.origins.number_functions import of_comprehension, of_numbers
from port.translation.frontend.origins.resolved import Resolved
from port.translation.ir.origin import AttributeOf, said

CALLED: list[str] = []


def _list(name: str, *values: int) -> Resolved:
    return Resolved(list(values), AttributeOf("", name))


def _texts(found: Resolved) -> Any:
    items = found.each_item()
    if items is not None:
        return [_texts(item) for item in items]
    return found.value if found.origin is None else said(found.origin)


def paddings(sizes: list[int], windows: list[int]) -> tuple[int, int]:
    """Docstring."""
    found = [(windows[i] - sizes[i] % windows[i]) % windows[i] for i in range(2)]
    return found[0], found[1]


def fitted(sizes: list[int], windows: list[int], shifts: list[int]) -> tuple[list[int], list[int]]:
    for i in range(2):
        if sizes[i] <= windows[i]:
            windows[i] = sizes[i]
            shifts[i] = 0
    return windows, shifts


def telling(size: int) -> int:
    CALLED.append("telling")
    return size


def rooted(size: int) -> float:
    return math.sqrt(size)


def picked(size: int, other: int) -> int:
    return min(size, other)


def with_a_global(size: int) -> int:
    return size + len(CALLED)


def test_arithmetic_keeps_the_origins() -> None:
    found = of_numbers(paddings, [_list("sizes", 9, 8), _list("windows", 4, 4)])
    rest = "(self.windows[{0}] - (self.sizes[{0}] % self.windows[{0}])) % self.windows[{0}]"
    assert _texts(found) == [rest.format(0), rest.format(1)]
    assert [item.value for item in found.each_item() or ()] == [3, 0]


def test_choices_are_those_that_were_made_and_what_is_given_stays_as_it_is() -> None:
    windows = _list("windows", 4, 4)
    found = of_numbers(fitted, [_list("sizes", 9, 3), windows, _list("shifts", 2, 2)])
    assert _texts(found) == [["self.windows[0]", "self.sizes[1]"], ["self.shifts[0]", 0]]
    assert windows.value == [4, 4]


@pytest.mark.parametrize("function", [telling, rooted, picked, with_a_global, len, print, _list])
def test_other_functions_are_not_called(function: Callable[..., Any]) -> None:
    several = [Resolved(3, AttributeOf("", "size")), Resolved(5, AttributeOf("", "other"))]
    count = 2 if function is picked else 1
    assert of_numbers(function, several[:count]) == Resolved() and not CALLED


def test_of_what_is_not_known_nothing_is_said() -> None:
    assert of_numbers(paddings, [Resolved(), _list("windows", 4, 4)]) == Resolved()
    assert of_numbers(paddings, [_list("sizes", 9), _list("windows", 4, 4)]) == Resolved()


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("[n + i for i in range(3)]", [("n + i", 0), ("n + i", 1), ("n + i", 2)]),
        ("[i for i in range(1, 5, 2)]", [("i", 1), ("i", 3)]),
        ("[i for i in range(n)]", None),
        ("[i for i in sizes]", None),
        ("[i for i in range(3) if i]", None),
        ("[i + j for i in range(2) for j in range(2)]", None),
    ],
)
def test_comprehensions_over_a_range(text: str, items: list[Any] | None) -> None:
    def resolve(item: ast.expr, numbers: Mapping[str, int]) -> Resolved:
        return Resolved(item.value if isinstance(item, ast.Constant) else (ast.unparse(item), *numbers.values()))

    node = ast.parse(text, mode="eval").body
    assert isinstance(node, ast.ListComp)
    found = of_comprehension(node, resolve).items
    assert (None if found is None else [item.value for item in found]) == items
