"""A fingerprint is of dtype, shape and bytes, however an array lies in memory."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from port.weights.fingerprints import DIGITS, FIRST_HASH, HASH, fingerprint

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("hash", [HASH, FIRST_HASH])
def test_the_same_for_the_same_and_another_for_all_else(hash: str) -> None:
    array = RANDOM.normal(size=(6, 4, 2)).astype(np.float32)
    changed = array.copy()
    changed.view(np.uint8).reshape(-1)[7] ^= 1
    others = [changed, array.reshape(4, 6, 2), array.transpose(2, 1, 0), array.view(np.int32), array[:5], -array]
    others += [array.astype(np.float64), array.astype(ml_dtypes.bfloat16), np.zeros((0, 4), np.float32), array[0, 0, 0]]
    prints = [fingerprint(np.asarray(other), hash) for other in (array, *others)]
    assert len(set(prints)) == len(prints)
    assert {len(one) for one in prints} == {DIGITS}


def test_it_does_not_matter_how_it_lies_in_memory() -> None:
    large = RANDOM.normal(size=(1200, 1100)).astype(np.float32)
    for array in (large, RANDOM.normal(size=(3, 4, 5)), RANDOM.normal(size=(7, 3)).astype(np.float16)):
        turned = np.ascontiguousarray(array.T).T
        assert fingerprint(array) == fingerprint(turned) == fingerprint(np.asfortranarray(array))
        assert fingerprint(array) == fingerprint(array.astype(array.dtype.newbyteorder(">")).astype(array.dtype))
