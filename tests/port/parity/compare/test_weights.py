"""What the two sides hold, compared before anything runs."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from port.mapping import Entry, Mapping, Permute
from port.parity.compare.weights import compare_weights

GENERATOR = np.random.default_rng(2)
A, B, K = GENERATOR.normal(size=(4, 4)), GENERATOR.normal(size=(4, 4)), GENERATOR.normal(size=(2, 3, 3, 2))
TURN = (Permute((1, 0)),)
MAPPING = Mapping(
    (Entry(("a",), ("x",), TURN), Entry(("b",), ("y",), TURN), Entry(("k",), ("z",), (Permute((2, 3, 1, 0)),)))
)
TORCH = {"a": A, "b": B, "k": K}
FLAX = {"x": A.T, "y": B.T, "z": K.transpose(2, 3, 1, 0)}


def why(**changed: Any) -> dict[str, str]:
    found = compare_weights(MAPPING, TORCH, {**FLAX, **changed}, {})
    return {finding.where: finding.why for finding in found}


def test_the_same_values_in_whatever_dtype() -> None:
    assert why() == {}
    half = {key: array.astype(np.float16) for key, array in TORCH.items()}
    wide = {path: array.astype(np.float16).astype(np.float64) for path, array in FLAX.items()}
    assert compare_weights(MAPPING, half, wide, {}) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"x": A}, "it is transposed"),
        ({"z": K.transpose(3, 2, 1, 0)}, "its axes are in another order"),
        ({"x": B.T}, "it holds the values of b"),
        ({"x": A.T.astype(np.float32)}, "it was rounded to float32"),
        ({"x": A.T.astype(ml_dtypes.bfloat16)}, "it was rounded to bfloat16"),
        ({"x": A.T[::-1]}, "the same values in another order"),
        ({"x": A.T * np.where(np.eye(4), 1 + 1e-6, 1)}, "4 of its 16 values"),
        ({"x": np.full((4, 4), np.nan)}, "16 of its 16 values"),
    ],
)
def test_what_became_of_it(changed: dict[str, np.ndarray], said: str) -> None:
    found = why(**changed)
    (where,) = found
    assert where in ("a → x", "k → z")
    assert said in found[where]
