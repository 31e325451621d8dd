"""Conditions on lengths are simplified, and those that always hold are dropped."""

from __future__ import annotations

import pytest

from port.translation.frontend.conditions import conditions
from port.translation.frontend.input_lengths import InputLengths

LENGTHS = InputLengths((("n", 3, "h", "w"),))
EXAMPLE = {"n": 2, "h": 9, "w": 12}
HALVED = "(((-1 + (-1 + s)) // 1 - 5 + 2) // 2)"


@pytest.mark.parametrize(
    ("guards", "expected"),
    [
        (["h <= 64"], ("h <= 64",)),
        (["(h - 7)//2 + 1 >= 1"], ("h >= 7",)),
        (["h >= 1", "h + n >= 2"], ()),
        (["h % 4 == 0"], ("h % 4 == 0",)),
        (["h >= 3", "h >= 5"], ("h >= 5",)),
        (["1 + (h - 3)//2 != 1", "h >= 3", "h <= 99"], ("5 <= h <= 99",)),
        (["h % 3 == 0", "h % 2 == 0"], ("h % 6 == 0",)),
        (["2 * (w // 4) == w // 2", "2 * (w // 2) == w", "w // 4 > 1"], ("w >= 8", "w % 4 == 0")),
        (["h % 3 == 0", "h < 99"], ("h <= 96", "h % 3 == 0")),
        (["h % 3 == 0", "h != 6"], ("h % 3 == 0", "h != 6")),
        (["(h // 8) == 1"], ("8 <= h <= 15",)),
        (["h - 9 == 0"], ("h == 9",)),
        (["n <= h", "w != h"], ("n <= h", "w != h")),
        (["h == w", "2*h == 2*w"], ("h == w",)),
        (["unsaid(h)", "h <= 9"], ("h <= 9",)),
        (["h <= 8000"], ("h <= 8000",)),
        (["h <= 8000", "h >= 3"], ("h >= 3", "h <= 8000")),
        (["n * h <= 5000", "w >= 3"], ("n * h <= 5000", "w >= 3")),
        (["h * w <= 3000000"], ("h * w <= 3000000",)),
        (["1024 * h * w >= 2"], ()),
        (["h // (w - 12) > 0"], ("h // (w - 12) > 0",)),
        # Nobody reads these at a glance: an array that is not empty, and what is none of each length alone.
        ([f"400 * n * {HALVED.replace('s', 'h')} * {HALVED.replace('s', 'w')} >= 2"], ("h >= 7", "w >= 7")),
        ([f"n * h <= 10000 and {HALVED.replace('s', 'h')} <= 10000 and {HALVED.replace('s', 'n')} <= 10000"], None),
        ([f"({HALVED.replace('s', 'h')} + {HALVED.replace('s', 'w')}) % 5 == 0 and n <= 2 * h and n <= w + 1"], None),
    ],
)
def test_what_is_left(guards: list[str], expected: tuple[str, ...] | None) -> None:
    assert conditions(guards, LENGTHS, EXAMPLE) == (tuple(guards) if expected is None else expected)
