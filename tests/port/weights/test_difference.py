"""How far apart two sets of weights are: the worst tensor's name; infinity for what cannot be compared."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from port.weights import largest_difference

WEIGHTS = {"a": np.array([1.0, -2.0]), "b": np.array([[100.0, 3.0]]), "n": np.array(7)}


def changed(**arrays: np.ndarray) -> dict[str, np.ndarray]:
    return WEIGHTS | arrays


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (changed(), ("a", 0.0)),
        (changed(a=np.array([1.0, -2.5])), ("a", 0.5 / 2.5)),
        (changed(a=np.array([1.0, 2.0])), ("a", 2.0)),  # magnitudes alone are equal
        (changed(b=np.array([[100.0, 4.0]])), ("b", 0.01)),  # over its largest
        (changed(a=np.array([1.0, -2.01]), b=np.array([[100.0, 4.0]])), ("b", 0.01)),
        (changed(a=np.array([1.0, -2.1]), b=np.array([[100.0, 4.0]])), ("a", 0.1 / 2.1)),
        (changed(n=np.array(8)), ("n", 1 / 8)),
    ],
)
def test_it_names_the_tensor_that_differs_most(other: dict[str, np.ndarray], expected: tuple[str, float]) -> None:
    for pair in ((WEIGHTS, other), (other, WEIGHTS)):
        name, difference = largest_difference(*pair)
        assert (name, difference) == (expected[0], pytest.approx(expected[1], rel=1e-12))


def test_small_tensors_are_judged_absolutely() -> None:
    assert largest_difference({"a": np.array([1e-9])}, {"a": np.array([3e-9])})[1] == pytest.approx(2e-9)


@pytest.mark.parametrize(
    "other",
    [
        {key: array for key, array in WEIGHTS.items() if key != "b"},
        changed(b=np.array([100.0, 3.0])),
        changed(b=np.array([[np.nan, 3.0]])),
        changed(b=np.array([[np.inf, 3.0]])),
        changed(b=np.array([[1e308, 3.0]])) | {"a": np.array([1.0])},
    ],
)
def test_what_cannot_be_compared_is_infinitely_far(other: dict[str, np.ndarray]) -> None:
    assert largest_difference(WEIGHTS, other)[1] == np.inf
    assert largest_difference(other, WEIGHTS)[1] == np.inf


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_differ_from_themselves(value: float) -> None:
    weights = {"a": np.array([1.0, value])}
    assert largest_difference(weights, weights) == ("a", np.inf)
    assert largest_difference({"a": np.array(1e308)}, {"a": np.array(-1e308)}) == ("a", np.inf)


def test_dtypes_are_compared_by_value() -> None:
    third = np.array([1 / 3])
    assert largest_difference({"a": third}, {"a": third.astype(np.float32)})[1] == pytest.approx(0, abs=1e-8)
    assert largest_difference({"a": third}, {"a": third.astype(ml_dtypes.bfloat16)})[1] == pytest.approx(
        6.5e-4, rel=0.01
    )


def test_nothing_differs_by_nothing() -> None:
    assert largest_difference({}, {}) == ("", 0.0)
    assert largest_difference({"a": np.ones((0, 3))}, {"a": np.ones((0, 3))}) == ("a", 0.0)
