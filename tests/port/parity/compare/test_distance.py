"""The difference of two arrays."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from port.parity.compare.distance import difference, gap, why_of
from port.parity.sides.calls import largest


def test_it_is_relative_to_the_reference() -> None:
    a, apart = np.array([3.0, -4.0]), np.array([0.0, 4e-6])
    assert difference(a, a + apart) == pytest.approx(1e-6)
    assert difference(1e200 * a, 1e200 * (a + apart)) == pytest.approx(1e-6)
    assert difference(1e-200 * a, 1e-200 * (a + apart)) == pytest.approx(1e-6)


def test_many_small_differences_count_by_their_norm() -> None:
    a = np.zeros(100)
    a[0] = 1.0
    assert difference(a, a + 0.01) == pytest.approx(0.1)


def test_what_is_not_finite_is_equal_to_itself_alone() -> None:
    a = np.array([1.0, np.nan, np.inf])
    assert difference(a, a.copy()) == 0
    assert difference(a, np.array([2.0, np.nan, np.inf])) == 1
    assert difference(a, np.array([1.0, 1.0, np.inf])) == np.inf
    assert difference(a, np.array([1.0, np.nan, -np.inf])) == np.inf
    assert gap(a, np.array([1.5, np.nan, np.inf])) == 0.5


def test_shapes_zeros_and_nothing() -> None:
    assert difference(np.ones((2, 3)), np.ones((3, 2))) == np.inf
    assert difference(np.zeros(2), np.array([0.0, 1e-30])) == np.inf


def test_why_a_difference_is_infinite() -> None:
    a = np.array([1.0, np.nan, np.inf])
    assert why_of(difference(np.ones((2, 3)), np.ones((3, 2)))) == "their shapes differ"
    assert "NaN" in why_of(difference(a, np.array([1.0, 1.0, np.inf])))
    assert "infinity" in why_of(difference(a, np.array([1.0, np.nan, 3.0])))
    assert "zeros only" in why_of(difference(np.zeros(2), np.array([0.0, 1e-30])))
    assert why_of(difference(a, a + 1)) == ""
    copied = pickle.loads(pickle.dumps(difference(np.ones(2), np.ones(3))))
    assert (copied, why_of(copied)) == (np.inf, "their shapes differ")
    assert difference(np.zeros(2), np.array([0.0, 1e-12]), scale=1e-3) == pytest.approx(1e-9)
    assert difference(np.zeros((0, 2)), np.zeros((0, 2))) == 0
    assert difference(np.array([1, 2]), np.array([1, 3])) == pytest.approx(0.5)


def test_the_largest_magnitude() -> None:
    assert largest({"a": np.array([1.0, -7.0]), "b": np.array([np.inf, 2.0]), "c": np.zeros(0)}) == 7
    assert largest({}) == 0
