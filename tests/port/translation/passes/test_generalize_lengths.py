"""Graphs at several lengths are merged: numbers that follow from lengths become formulas, others are refused."""

from __future__ import annotations

from typing import Any

import pytest

from port.translation.ir.graph import Graph, Operation, Value
from port.translation.ir.module_calls import ScopeEnter, ScopeExit
from port.translation.ir.number import KnownNumber
from port.translation.ir.origin import AttributeOf
from port.translation.passes.generalize_lengths import generalised

SIZES = {"h": (16, 17, 24), "w": (16, 15, 20)}


def graph(number: int, **changed: Any) -> Graph:
    """A pooling over all of a map that is half as large, at one of the lengths."""
    h, w = SIZES["h"][number], SIZES["w"][number]
    x = Value("x", ("n", 3, h, w), "float32")
    half = Value("half", ("n", 3, (h + 1) // 2, (w + 1) // 2), "float32")
    y = Value("y", ("n", 3, 1, 1), "float32")
    kernel = changed.get("kernel", [(h + 1) // 2, (w + 1) // 2])
    operator = changed.get("operator", "aten.avg_pool2d.default")
    numbers = changed.get("numbers", {})
    steps = [
        ScopeEnter("", 0, None, {"x": x}),
        Operation("aten.half.default", {"self": x}, (half,), False, None),
        Operation(operator, {"self": half, "size": kernel}, (y,), False, None, numbers=numbers),
        ScopeExit("", 0, y),
    ]
    return Graph((x,), {}, {}, (*steps[:3], *changed.get("more", []), steps[3]))


def test_numbers_become_formulas() -> None:
    made = generalised([graph(number) for number in range(3)], SIZES)
    assert made is not None
    assert made.inputs[0].shape == ("n", 3, "h", "w")
    pool = next(step for step in made.steps if isinstance(step, Operation) and "pool" in step.operator)
    assert [length.length for length in pool.arguments["size"]] == ["((h + 1)//2)", "((w + 1)//2)"]
    assert pool.arguments["self"].shape == ("n", 3, "((h + 1)//2)", "((w + 1)//2)")


def test_products_and_what_other_symbols_stand_beside() -> None:
    kernels = [[SIZES["h"][k] * SIZES["w"][k], 5 * SIZES["h"][k]] for k in range(3)]
    made = generalised([graph(number, kernel=kernels[number]) for number in range(3)], SIZES)
    assert made is not None
    pool = next(step for step in made.steps if isinstance(step, Operation) and "pool" in step.operator)
    assert [length.length for length in pool.arguments["size"]] == ["(h)*(w)", "5*(h)"]


@pytest.mark.parametrize(
    "changed",
    [
        {"kernel": [3, 100]},
        {"operator": "aten.max_pool2d.default"},
        {"more": [Operation("aten.relu.default", {}, (), False, None)]},
        {"kernel": [8.0, 8]},
    ],
    ids=["a number of its own", "another operator", "one more step", "a float"],
)
def test_what_differs_in_more_is_refused(changed: dict[str, Any]) -> None:
    assert generalised([graph(0), graph(1, **changed), graph(2)], SIZES) is None


def test_a_number_keeps_the_origin_that_it_has_at_all_lengths() -> None:
    same, first, other = (KnownNumber(5, AttributeOf("", name)) for name in ("same", "first", "other"))
    said = [{("size", 0): same, ("size", 1): each} for each in (first, first, other)]
    made = generalised([graph(number, kernel=[5, 5], numbers=said[number]) for number in range(3)], SIZES)
    assert made is not None
    pool = next(step for step in made.steps if isinstance(step, Operation) and "pool" in step.operator)
    assert pool.arguments["size"] == [5, 5] and pool.numbers == {("size", 0): same}
