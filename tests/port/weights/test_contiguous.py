"""The bytes of arrays in C order, against numpy's own `tobytes`."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from port.weights import contiguous
from port.weights.contiguous import pieces

RANDOM = np.random.default_rng(0)


def joined(array: np.ndarray) -> bytes:
    return b"".join(bytes(piece) for piece in pieces(array))


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.int8, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.complex64]
)
@pytest.mark.thin(3)
def test_every_permutation(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    array = (RANDOM.normal(size=(5, 67, 3, 130)) * 20).astype(dtype)
    for size in (2**22, 4000, 7):  # in one piece; rows in pieces; a row in pieces
        monkeypatch.setattr(contiguous, "PIECE", size)
        for axes in itertools.permutations(range(4)) if size > 7 else [(3, 2, 1, 0), (0, 3, 1, 2)]:
            permuted = array.transpose(axes)
            assert joined(permuted) == permuted.tobytes(), axes


@pytest.mark.parametrize(
    "array",
    [
        np.array(3.5),
        np.zeros((0, 4)),
        np.zeros((4, 0)).T,
        np.arange(7.0)[::-1],
        np.arange(12.0).reshape(3, 4)[::-1, ::2],
        np.broadcast_to(np.arange(130.0), (70, 130)),
        np.broadcast_to(np.arange(70.0)[:, None], (70, 130)),
        RANDOM.normal(size=(200, 1, 100)).T,
    ],
)
def test_odd_layouts(array: np.ndarray) -> None:
    assert joined(array) == array.tobytes()


def test_bytes_are_little_endian() -> None:
    array = np.arange(300.0).reshape(3, 100)
    assert joined(array.astype(">f8")) == joined(array.astype(">f8").T.copy().T) == array.astype("<f8").tobytes()


def test_an_array_in_c_order_is_not_copied_and_another_is_copied_in_pieces() -> None:
    array = RANDOM.normal(size=(3000, 700))
    (piece,) = pieces(array)
    assert np.shares_memory(np.frombuffer(piece, np.uint8), array)
    sizes = [len(piece) for piece in pieces(array.T)]
    assert len(sizes) > 2
    assert max(sizes) <= contiguous.PIECE
    assert sum(sizes) == array.nbytes
