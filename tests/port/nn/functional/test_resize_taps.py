"""Interpolation's elements and weights, applied by numpy, against what torch makes of them, in either precision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from port.nn.functional.resize_taps import ANTIALIASED, METHODS, Axis

LENGTH = 7
TOLERANCE = {np.float64: 1e-13, np.float32: 4e-6}


def variants() -> Iterator[tuple[str, bool, dict[str, Any]]]:
    for mode in (*METHODS, "lanczos"):
        for smooth in [smooth for smooth in (False, True) if mode in (METHODS, ANTIALIASED)[smooth]]:
            for corners in (None,) if mode in ("nearest", "nearest-exact", "lanczos") else (False, True):
                for size in (1, 2, 3, 5, 7, 8, 13, 14, 29):
                    yield mode, smooth, {"align_corners": corners, "size": size}
                for factor in (0.2, 0.37, 0.5, 0.9, 1.0, 1.7, 2.0, 2.3, 4.1):
                    yield mode, smooth, {"align_corners": corners, "scale_factor": factor}


def taken(x: np.ndarray, mode: str, smooth: bool, given: dict[str, Any], dtype: Any) -> np.ndarray:
    """(LENGTH,) → (count,)."""
    factor = given.get("scale_factor")
    count = int(LENGTH * factor) if factor else given["size"]
    grid = Axis(LENGTH, count, factor, bool(given["align_corners"]), np.dtype(dtype))
    indices, weights = (ANTIALIASED if smooth else METHODS)[mode](grid)
    assert indices.shape == weights.shape == (count, indices.shape[1])
    assert weights.dtype == dtype
    assert ((indices >= 0) & (indices < LENGTH)).all()
    return (x[indices] * weights).sum(1)


def expected(x: np.ndarray, mode: str, smooth: bool, given: dict[str, Any]) -> np.ndarray:
    """torch's, along the second of two axes where the mode needs two."""
    spatial = {"linear": 1, "trilinear": 3}.get(mode, 2)
    tensor = torch.from_numpy(x).expand(1, 1, *(2,) * (spatial - 1), LENGTH).contiguous()
    size, factor = given.get("size"), given.get("scale_factor")
    wanted: dict[str, Any] = {"align_corners": given["align_corners"], "antialias": smooth}
    # The other axes, of two equal elements, keep their size.
    wanted |= {"size": (*(2,) * (spatial - 1), size)} if size else {"scale_factor": (*(1.0,) * (spatial - 1), factor)}
    return F.interpolate(tensor, mode=mode, **wanted).flatten(0, -2)[0].numpy()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_W21_every_mode_up_and_down_by_odd_factors(dtype: Any, subtests: pytest.Subtests) -> None:
    x = np.random.default_rng(0).normal(0.5, 2, LENGTH).astype(dtype)
    for mode, smooth, given in variants():
        with subtests.test(f"{mode} {smooth} {given}"):
            theirs, got = expected(x, mode, smooth, given), taken(x, mode, smooth, given, dtype)
            assert got.shape == theirs.shape
            assert np.abs(got - theirs).max() <= TOLERANCE[dtype]


@pytest.mark.parametrize(("mode", "offset"), [("nearest", 0), ("nearest-exact", 0.5)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_W21_the_neighbour_is_torchs_where_rounding_decides(mode: str, offset: float, dtype: Any) -> None:
    others = 0
    for length in range(1, 60, 3):
        x = torch.arange(length, dtype=torch.from_numpy(np.zeros(0, dtype)).dtype)[None, None]
        for count in range(1, 200, 2):
            got = METHODS[mode](Axis(length, count, None, False, np.dtype(dtype)))[0][:, 0]
            np.testing.assert_array_equal(got, F.interpolate(x, count, mode=mode)[0, 0].numpy())
            others += int((got != np.floor((np.arange(count) + offset) * (length / count))).any())
    assert others > 0  # float64 all through takes another neighbour for some sizes


def test_W21_weights_add_up_to_one_and_another_curve_is_seen() -> None:
    x = np.random.default_rng(0).normal(0.5, 2, LENGTH)
    given = {"align_corners": False, "size": 13}
    for mode, smooth, options in variants():
        ones = taken(np.ones(LENGTH), mode, smooth, options, np.float64)
        np.testing.assert_allclose(ones, 1, rtol=1e-12)
    theirs = expected(x, "bicubic", False, given)
    # The antialiased one has another a, which is all that differs when an image grows.
    assert np.abs(taken(x, "bicubic", True, given, np.float64) - theirs).max() > 1e-3
    assert np.abs(taken(x, "bilinear", False, given, np.float64) - theirs).max() > 1e-3
