"""Eigenvectors, whose signs are arbitrary."""

from __future__ import annotations

import numpy as np
import pytest

from ..by_hand import apart, lowered, random

pytestmark = pytest.mark.usefixtures("float64")


def test_values_and_vectors() -> None:
    square = random(4, 4)
    made, expected = lowered("aten.linalg_eigh.default", square + square.T, orders=[(1, 0)])
    for arrays in (made.arrays, expected):
        arrays[1] = np.abs(arrays[1])
    assert apart(made, expected) < 1e-12
    made.arrays[0] = made.arrays[0][::-1]
    assert apart(made, expected) > 0.1


def test_the_upper_half_is_refused() -> None:
    with pytest.raises(AssertionError, match="JAX reads the lower triangle"):
        lowered("aten.linalg_eigh.default", random(4, 4), "U")
