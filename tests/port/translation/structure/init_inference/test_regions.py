"""Regions of an array as slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from port.translation.ir.syntax import source
from port.translation.structure.init_inference.regions import boxes_of, index_of


@pytest.mark.parametrize(
    ("index", "shape", "text"),
    [
        (np.s_[2], (5, 3), "jnp.s_[2]"),
        (np.s_[1:3], (5,), "jnp.s_[1:3]"),
        (np.s_[:, 1:], (5, 3), "jnp.s_[:, 1:]"),
        (np.s_[:, :, 1], (5, 3, 4), "jnp.s_[:, :, 1]"),
        (np.s_[:2, 1:2], (5, 3), "jnp.s_[:2, 1]"),
    ],
)
def test_a_box(index: Any, shape: tuple[int, ...], text: str) -> None:
    where = np.zeros(shape, bool)
    where[index] = True
    boxes = boxes_of(where)
    assert boxes is not None and len(boxes) == 1
    assert source(index_of(boxes[0], shape, plain=True)) == text


def test_several_boxes() -> None:
    where = np.zeros((9, 4), bool)
    where[1:3] = where[5] = True
    boxes = boxes_of(where)
    assert boxes == [(slice(1, 3), slice(0, 4)), (slice(5, 6), slice(0, 4))]


def test_what_is_no_box() -> None:
    assert boxes_of(np.eye(7, dtype=bool)) is None
    assert boxes_of(np.random.default_rng(0).random((6, 7)) > 0.5) is None
