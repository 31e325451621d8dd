"""Rows that repeat by an index are one, and come back one by one, in their order, whatever their names are."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from port.mapping.patterns import PatternRow, counts, rolled, unrolled


def rows(*names: str) -> list[PatternRow[int]]:
    return [PatternRow((name, f"{name}.target"), 0) for name in names]


def told(found: list[PatternRow[int]]) -> list[tuple[str, str]]:
    return [(row.names[0], counts(row.each)) for row in found]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (
            ["embed", *(f"blocks.{i}.{name}" for i in range(3) for name in ("w", "b")), "head"],
            [("embed", ""), ("blocks.{i}.w", "i = 0 … 2"), ("blocks.{i}.b", "i = 0 … 2"), ("head", "")],
        ),
        (
            [f"{i}.{name}" for i in range(2) for name in ("norm", *(f"experts.{j}.up" for j in (0, 2, 4)))],
            [("{i}.norm", "i = 0, 1"), ("{i}.experts.{j}.up", "i = 0, 1, j = 0, 2, 4")],
        ),
        # Two loops beside each other that count the same have two letters: they are not one loop of both.
        (
            [f"{name}.{i}" for name in ("encoder", "decoder") for i in range(3)],
            [("encoder.{i}", "i = 0 … 2"), ("decoder.{j}", "j = 0 … 2")],
        ),
        (["layers_0.w", "layers_1.w"], [("layers_{i}.w", "i = 0, 1")]),
        (["conv1.w", "conv2.w", "a.01", "a.02"], [("conv1.w", ""), ("conv2.w", ""), ("a.01", ""), ("a.02", "")]),
        (["a.0.b.1", "a.1.b.0"], [("a.0.b.1", ""), ("a.1.b.0", "")]),  # two numbers, and not one index
        (["a.{i}", "b.0", "b.1"], [("a.{i}", ""), ("b.0", ""), ("b.1", "")]),  # braces of its own
    ],
)
def test_what_repeats_is_one(names: list[str], expected: list[tuple[str, str]]) -> None:
    given = rows(*names)
    found = rolled(given)
    assert told(found) == expected
    assert unrolled(found) == given


def test_what_says_something_else_does_not_repeat() -> None:
    given = [PatternRow((f"a.{i}",), i // 2) for i in range(4)]
    assert told(rolled(given)) == [("a.{i}", "i = 0, 1"), ("a.{i}", "i = 2, 3")]
    assert unrolled(rolled(given)) == given


def test_targets_that_count_otherwise_do_not_repeat() -> None:
    given = [PatternRow((f"a.{i}", f"b.{i + 1}"), 0) for i in range(4)]
    assert rolled(given) == given


def test_any_names_come_back() -> None:
    drawn = random.Random(0)
    for _ in range(500):
        count = drawn.randrange(14)
        names = {f"{drawn.choice('ab')}.{drawn.randrange(3)}.{drawn.choice('xy')}.{drawn.randrange(2)}": 0} | {
            f"{drawn.choice('ab')}.{drawn.randrange(3)}.{drawn.choice('xy')}.{drawn.randrange(2)}": 0
            for _ in range(count)
        }
        assert unrolled(rolled(rows(*names))) == rows(*names)


@pytest.mark.parametrize(
    ("each", "message"),
    [({"j": (0, 1)}, "{j} is in none of its names"), ({"i": tuple(range(11))}, "more than 10 entries")],
)
def test_what_cannot_be_is_refused(each: Mapping[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unrolled([PatternRow(("a.{i}",), 0, each)], most=10)
