"""Routes: every way gives the shape that is wanted; the usual one comes first; none where shapes do not fit."""

from __future__ import annotations

import numpy as np
import pytest

from port.matching.routes import routes
from port.moves import Permute


@pytest.mark.parametrize(
    ("family", "shape", "other_family", "other", "count"),
    [
        ("linear", (6, 4), "linear", (4, 6), 1),
        ("linear", (6, 4), "linear", (4, 2, 3), 1),
        ("linear", (6, 4), "own", (6, 4), 1),
        ("linear", (4, 4), "own", (4, 4), 2),
        ("conv", (5, 3, 2, 2), "conv", (2, 2, 3, 5), 2),
        ("conv", (5, 3, 2, 2), "linear", (12, 5), 2),
        ("own", (1, 7, 4), "own", (7, 4), 1),
        ("own", (8,), "own", (1, 8, 1), 1),
    ],
)
def test_ways(family: str, shape: tuple[int, ...], other_family: str, other: tuple[int, ...], count: int) -> None:
    ways = routes(family, shape, other_family, other, role="weight")
    assert len(ways) == len(set(ways)) == count
    for moves in ways:
        arrays: tuple[np.ndarray, ...] = (np.arange(np.prod(shape)).reshape(shape),)
        for move in moves:
            arrays = move(arrays)
        assert arrays[0].shape == other


def test_the_usual_way_comes_first() -> None:
    assert routes("linear", (4, 4), "own", (4, 4), role="weight")[0] == (Permute((1, 0)),)
    assert routes("conv", (3, 3, 3, 3), "own", (3, 3, 3, 3), role="weight")[0] == (Permute((2, 3, 1, 0)),)


def test_shapes_that_do_not_fit() -> None:
    assert routes("linear", (6, 4), "linear", (6, 4), role="weight") == []
    assert routes("linear", (6, 4), "linear", (4, 5), role="weight") == []
    assert routes("norm", (6,), "norm", (5,), role="bias") == []
