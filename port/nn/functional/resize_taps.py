"""Indices and weights of an interpolation along one axis, computed in numpy at trace time.

Sources: ATen's ``UpSample.h`` and ``UpSampleKernel.cpp``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Axis:
    """One axis: its length before and after, the requested factor, and the dtype of its coordinates."""

    length: int
    count: int
    factor: float | None
    align_corners: bool
    dtype: np.dtype

    def step(self) -> np.floating:
        """Return the distance, in the input, of two neighbours of the result. Source: ``area_pixel_compute_scale``."""
        number = self.dtype.type
        if self.align_corners:
            return number(self.length - 1) / number(self.count - 1) if self.count > 1 else number(0)
        if self.factor is not None and self.factor > 0:
            return number(1 / self.factor)
        return number(self.length) / number(self.count)

    def places(self) -> np.ndarray:
        """Return the input coordinates of the result's elements."""
        element = np.arange(self.count).astype(self.dtype)
        if self.align_corners:
            return element * self.step()
        return self.step() * (element + self.dtype.type(0.5)) - self.dtype.type(0.5)


Taps = tuple[np.ndarray, np.ndarray]
"""(count, taps) indices and weights."""


def _nearest(axis: Axis, offset: float) -> Taps:
    """Source: ATen's ``HelperInterpNearest``, which multiplies and adds at once and floors in float32.

    Where rounding decides between two neighbours torch is not consistent: for channels last, and for large images, it
    computes the step in float32 for every input dtype.
    """
    step = np.float64(replace(axis, align_corners=False).step())
    place = (step * (np.arange(axis.count) + offset) - offset).astype(axis.dtype) + axis.dtype.type(offset)
    indices = np.minimum(np.floor(place.astype(np.float32)).astype(int), axis.length - 1)
    return indices[:, None], np.ones((axis.count, 1), axis.dtype)


def _linear(axis: Axis) -> Taps:
    place = np.maximum(axis.places(), 0)
    low = np.minimum(place.astype(int), axis.length - 1)
    share = np.clip(place - low, 0, 1).astype(axis.dtype)
    return np.stack([low, np.minimum(low + 1, axis.length - 1)], 1), np.stack([1 - share, share], 1)


def _cubic(axis: Axis) -> Taps:
    place = axis.places()
    low = np.floor(place)
    share = (place - low).astype(axis.dtype)
    taps = np.arange(-1, 3)
    weights = cubic(share[:, None] - taps.astype(axis.dtype), -0.75)
    return np.clip(low.astype(int)[:, None] + taps, 0, axis.length - 1), weights


def cubic(x: np.ndarray, a: float) -> np.ndarray:
    """Keys, "Cubic convolution interpolation for digital image processing", 1981."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x < 1, near, np.where(x < 2, far, 0)).astype(x.dtype)


def triangle(x: np.ndarray) -> np.ndarray:
    """1 − |x|, no less than 0."""
    return np.maximum(1 - np.abs(x), 0)


def lanczos(x: np.ndarray) -> np.ndarray:
    """Lanczos with three lobes: sinc(x) · sinc(x / 3) for |x| < 3."""
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0).astype(x.dtype)


def _antialiased(curve: Callable[[np.ndarray], np.ndarray], reach: int) -> Callable[[Axis], Taps]:
    """Source: ATen's ``_compute_indices_weights_aa``, after Pillow's ``precompute_coeffs``."""

    def method(axis: Axis) -> Taps:
        number = axis.dtype.type
        step = axis.step()
        stretch = max(step, number(1))
        support = reach * stretch
        centre = step * (np.arange(axis.count).astype(axis.dtype) + number(0.5))
        begin = np.maximum((centre - support + number(0.5)).astype(int), 0)
        end = np.minimum((centre + support + number(0.5)).astype(int), axis.length)
        place = begin[:, None] + np.arange((end - begin).max())
        distance = (place - centre[:, None] + number(0.5)).astype(axis.dtype) / stretch
        weights = np.where(place < end[:, None], curve(distance), number(0))
        return np.minimum(place, axis.length - 1), weights / weights.sum(1, keepdims=True)

    return method


METHODS: dict[str, Callable[[Axis], Taps]] = {
    "nearest": lambda axis: _nearest(axis, 0.0),
    "nearest-exact": lambda axis: _nearest(axis, 0.5),
    **dict.fromkeys(("linear", "bilinear", "trilinear"), _linear),
    "bicubic": _cubic,
}
ANTIALIASED: dict[str, Callable[[Axis], Taps]] = {
    "bilinear": _antialiased(triangle, 1),
    "bicubic": _antialiased(lambda x: cubic(x, -0.5), 2),
    "lanczos": _antialiased(lanczos, 3),
}
