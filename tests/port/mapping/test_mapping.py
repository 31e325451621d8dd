"""The mapping: carries every tensor over, and back, bit for bit; refuses what does not fit."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np
import pytest

from port.errors import WeightsMismatch
from port.mapping import Entry, Mapping, Move, Permute

CYCLES = [axes for rank in (2, 3, 4) for axes in permutations(range(rank))]


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


@dataclass(frozen=True)
class Unchanging:
    """A move whose inverse is forgotten: the planted fault."""

    move: Move

    def __call__(self, array: np.ndarray) -> np.ndarray:
        return self.move(array)

    def inverse(self) -> Unchanging:
        return self


@pytest.mark.parametrize("axes", CYCLES)
def test_axis_i_of_the_result_is_axis_axes_i_of_the_array(axes: tuple[int, ...]) -> None:
    array = random(*range(2, 2 + len(axes)))
    moved = Permute(axes)(array)
    assert moved.shape == tuple(array.shape[axis] for axis in axes)
    for index in np.ndindex(moved.shape):
        assert moved[index] == array[tuple(index[axes.index(axis)] for axis in range(len(axes)))]


@pytest.mark.parametrize("axes", CYCLES)
def test_the_inverse_undoes_the_move(axes: tuple[int, ...]) -> None:
    array = random(*range(2, 2 + len(axes)))
    np.testing.assert_array_equal(Permute(axes).inverse()(Permute(axes)(array)), array)
    np.testing.assert_array_equal(Permute(axes)(Permute(axes).inverse()(array)), array)


def test_a_move_that_forgets_its_inverse_is_seen() -> None:
    array, move = random(3, 3, 3), Unchanging(Permute((1, 2, 0)))
    assert (move.inverse()(move(array)) != array).any()


def test_the_inverse_takes_the_moves_back_in_reverse() -> None:
    entry = Entry("a", "b", (Permute((1, 0, 2)), Permute((2, 0, 1))))
    array = random(3, 3, 3)
    np.testing.assert_array_equal(entry.inverse()(entry(array)), array)
    in_order = Entry("b", "a", tuple(move.inverse() for move in entry.moves))
    assert (in_order(entry(array)) != array).any()


def test_there_and_back_is_bit_identical_and_keeps_every_dtype() -> None:
    mapping = Mapping(
        (Entry("a.weight", "a.kernel", (Permute((2, 0, 1)),)), Entry("n", "count"), Entry("a.bias", "a.bias"))
    )
    arrays = {
        "a.weight": random(2, 3, 4).astype(np.float32),
        "n": np.array(7, np.int32),
        "a.bias": random(3).astype(np.float16),
    }
    there = mapping(arrays)
    back = mapping.inverse()(there)
    assert set(there) == {"a.kernel", "count", "a.bias"}
    assert set(back) == set(arrays)
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        np.testing.assert_array_equal(back[name], array)
    assert mapping.inverse().inverse() == mapping


def test_everything_missing_and_unexpected_comes_sorted_in_one_message() -> None:
    mapping = Mapping(tuple(Entry(key, key.upper()) for key in ("c", "a", "b")))
    with pytest.raises(WeightsMismatch) as caught:
        mapping(dict.fromkeys(("z", "b", "y"), random(2)))
    lines = [line.strip() for line in str(caught.value).splitlines()[1:]]
    assert lines == ["missing: a", "missing: c", "unexpected: y", "unexpected: z"]


def test_an_array_of_another_rank_is_refused_by_name() -> None:
    mapping = Mapping((Entry("conv.weight", "conv.kernel", (Permute((2, 3, 1, 0)),)),))
    with pytest.raises(WeightsMismatch, match=r"conv\.weight → conv\.kernel.*4 axes.*\(3,\)"):
        mapping({"conv.weight": random(3)})


def test_it_prints_an_entry_a_line() -> None:
    mapping = Mapping((Entry("fc.weight", "fc.kernel", (Permute((1, 0)),)), Entry("fc.bias", "fc.bias")))
    assert str(mapping) == "fc.weight → fc.kernel  [permute(1, 0)]\nfc.bias → fc.bias"
