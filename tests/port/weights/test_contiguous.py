"""The bytes of arrays in C order, against numpy's own `tobytes`."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from port.weights import contiguous
from port.weights.contiguous import all_in_c_order, in_c_order, pieces
from port.weights.memory import Memory
from port.weights.tensors import dtypes

from .some_tensors import some

RANDOM = np.random.default_rng(0)


def joined(array: np.ndarray) -> bytes:
    return b"".join(bytes(piece) for piece in pieces(array))


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.int8, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.complex64]
)
@pytest.mark.sweep
def test_every_permutation(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    array = (RANDOM.normal(size=(5, 67, 3, 130)) * 20).astype(dtype)
    for size in (2**22, 4000, 7):  # in one piece; rows in pieces; a row in pieces
        monkeypatch.setattr(contiguous, "PIECE", size)
        for axes in itertools.permutations(range(4)) if size > 7 else [(3, 2, 1, 0), (0, 3, 1, 2)]:
            permuted = array.transpose(axes)
            assert joined(permuted) == permuted.tobytes(), axes


ODD = [(67,), (37, 53), (7, 11, 13), (3, 5, 17, 19), (2, 5, 3, 7, 11)]


@pytest.mark.parametrize("name", dtypes())
def test_tiles_of_odd_sizes_hold_every_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every dtype, with one axis to five, in many orders of the axes, reversed and in parts."""
    for tile, shape in itertools.product((5, 16), ODD):
        monkeypatch.setattr(contiguous, "TILE", tile)
        array = some(name, shape)
        for order in RANDOM.permutation(list(itertools.permutations(range(array.ndim))))[:3]:
            permuted = array.transpose(order)
            for part in (permuted, permuted[::-1, ..., 1::2] if permuted.ndim > 1 else permuted[::-2]):
                assert in_c_order(part, Memory()).tobytes() == part.tobytes() == joined(part), (shape, order)


def test_several_are_each_in_c_order() -> None:
    arrays = [some("bfloat16", shape).transpose(*reversed(range(len(shape)))) for shape in ODD[1:]]
    for copy, array in zip(all_in_c_order(arrays, Memory()), arrays, strict=True):
        assert copy.flags.c_contiguous and copy.tobytes() == array.tobytes()
    in_order = [some("float32", shape) for shape in ODD]
    assert all(one is other for one, other in zip(all_in_c_order(in_order, Memory()), in_order, strict=True))
    assert all_in_c_order([], Memory()) == []


def test_a_tile_that_is_left_out_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    permuted = some("float32", (3, 5, 17, 19)).transpose(3, 0, 2, 1)
    monkeypatch.setattr(contiguous, "TILE", 5)
    for tiles, same in ((lambda *ranges: itertools.product(*ranges), True), (all_but_one, False)):
        monkeypatch.setattr(contiguous, "product", tiles)
        copy = contiguous._copy(permuted, np.zeros(permuted.shape, permuted.dtype))
        assert (copy.tobytes() == permuted.tobytes()) is same


def all_but_one(*ranges: range) -> list[tuple[int, ...]]:
    places = list(itertools.product(*ranges))
    return places[: len(places) // 2] + places[len(places) // 2 + 1 :]


@pytest.mark.parametrize("shape", [(300, 500), (500, 300), (64, 48, 3, 3), (3, 3, 48, 64), (5, 7, 300, 2), (1, 900, 1)])
def test_a_tile_is_wide_in_the_source_and_in_the_copy(shape: tuple[int, ...]) -> None:
    """And holds no more than its square."""
    for order in itertools.permutations(range(len(shape))):
        permuted = np.zeros(shape, np.int8).transpose(order)
        sizes = contiguous._tile(permuted.shape, np.argsort([-stride for stride in permuted.strides], kind="stable"))
        assert all(0 < size <= whole for size, whole in zip(sizes, permuted.shape, strict=True))
        assert min(permuted.size, contiguous.TILE // 4) <= np.prod(sizes) <= contiguous.TILE**2


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
    assert all(np.shares_memory(np.frombuffer(piece, np.uint8), array) for piece in pieces(array))
    sizes = [len(piece) for piece in pieces(array.T)]
    assert len(sizes) > 2
    assert max(sizes) <= contiguous.PIECE
    assert sum(sizes) == array.nbytes
