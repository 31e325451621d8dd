"""Operators on images, in a channels-last layout."""

from __future__ import annotations

import pytest

from ..by_hand import apart, lowered, name_of, random

pytestmark = pytest.mark.usefixtures("float64")


X = random(2, 3, 6, 8)
LAST = (0, 2, 3, 1)


@pytest.mark.parametrize("order", [LAST, (0, 1, 2, 3), (1, 0, 3, 2)])
@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        ("aten.avg_pool2d.default", (X, [2, 4])),
        ("aten.max_pool2d_with_indices.default", (X, [2, 2])),
        ("aten.conv2d.default", (X, random(5, 3, 2, 3, seed=1), random(5, seed=2))),
        ("aten.pixel_unshuffle.default", (X, 2)),
        ("aten.group_norm.default", (X, 3, random(3, seed=1), random(3, seed=2))),
    ],
    ids=name_of,
)
def test_images_in_any_order(order: tuple[int, ...], operator: str, arguments: tuple) -> None:
    made, expected = lowered(operator, *arguments, orders=[order])
    assert apart(made, expected) < 1e-13
    assert made.transposes == (order != LAST)
    assert made.layouts == [LAST] * len(expected)


def test_normalising_by_running_statistics() -> None:
    for affine in (True, False):
        weight, bias = (random(3, seed=1), random(3, seed=2)) if affine else (None, None)
        statistics = random(3, seed=3), random(3, seed=4).exp()
        operator = "aten._native_batch_norm_legit_no_training.default"
        made, expected = lowered(operator, X, weight, bias, *statistics, 0.1, 1e-5, orders=[LAST], read=1)
        (text,) = made.texts
        assert text.startswith("y0 = (x0 - x") and text.count("*") == 1 + affine
        assert apart(made, expected) < 1e-14
