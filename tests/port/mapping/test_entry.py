"""An entry: there and back, and what of a tied weight is enough."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from port.errors import WeightsMismatch
from port.mapping.entry import Entry, gather
from port.moves import Branch, EachBranch, Join, Merge, Permute, Split, Sum, Tie, Widen


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


def test_the_inverse_takes_the_moves_back_in_reverse():
    entry = Entry(("a",), ("b",), (Permute((1, 0, 2)), Permute((2, 0, 1))), shapes=((3, 3, 3),))
    array = random(3, 3, 3)
    (back,) = entry.inverse()(entry((array,)))
    np.testing.assert_array_equal(back, array)
    assert entry.inverse().inverse() == entry
    in_order = Entry(("b",), ("a",), tuple(move.inverse() for move in entry.moves))  # the planted fault
    assert (in_order(entry((array,)))[0] != array).any()


def test_the_inverse_knows_the_shapes_of_its_own_sources():
    entry = Entry(("a",), ("b", "c"), (Split(0, (1, 3)), Permute((1, 0))), shapes=((4, 2),))
    assert entry.target_shapes() == ((2, 1), (2, 3))
    assert entry.inverse().shapes == ((2, 1), (2, 3))
    assert entry.inverse().target_shapes() == ((4, 2),)


def test_a_refusal_says_whose_the_arrays_are():
    entry = Entry(("conv.weight",), ("conv.kernel",), (Permute((2, 3, 1, 0)),))
    with pytest.raises(WeightsMismatch, match=r"conv\.weight → conv\.kernel.*4 axes.*\(3,\)"):
        entry((random(3),))
    with pytest.raises(WeightsMismatch, match=r"conv\.weight → conv\.kernel.*4 axes.*\(3,\)"):
        entry.target_shapes(((3,),))
    with pytest.raises(WeightsMismatch, match="the shapes are not known"):
        entry.target_shapes()


def test_another_number_of_arrays_than_of_targets_is_refused():
    entry = Entry(("a",), ("b", "c", "d"), (Split(0, (1, 3)),))
    for attempt in (lambda: entry((random(4),)), lambda: entry.target_shapes(((4,),))):
        with pytest.raises(WeightsMismatch, match="its moves return 2 arrays for 3 targets"):
            attempt()


def test_any_name_of_a_tied_weight_gives_all():
    entry = Entry(("a", "b", "c"), ("d",), (Tie(3),))
    one, other = random(2), random(2) + 1
    assert entry.tied == (("a", "b", "c"),)
    assert all(array is one for array in gather(entry, {"b": one}))
    assert [array[0] for array in gather(entry, {"a": one, "c": other})] == [one[0], one[0], other[0]]


def test_tied_names_are_found_inside_branches():
    tied = Branch(2, (Tie(2),), 1)
    entry = Entry(("x", "a", "b", "c", "d"), ("y",), (EachBranch((Branch(1, (), 1), tied, tied)), Join(0, (1, 1, 1))))
    assert entry.tied == (("a", "b"), ("c", "d"))
    values = {"x": np.array([1.0]), "b": np.array([2.0]), "c": np.array([3.0])}
    assert entry(gather(entry, values))[0].tolist() == [1, 2, 3]
    with pytest.raises(KeyError, match="x"):
        gather(entry, {"b": random(1), "c": random(1)})
    with pytest.raises(KeyError):
        gather(entry, {"x": random(1), "c": random(1)})


def test_each_source_is_read_once():
    read = []

    class Reader(dict):
        def __getitem__(self, name):
            read.append(name)
            return super().__getitem__(name)

    gather(Entry(("a", "b"), ("c",), (Tie(2),)), Reader(a=random(2)))
    assert read == ["a"]


@pytest.mark.parametrize("dtype", [np.bool_, np.int64, np.uint8, np.float16, ml_dtypes.bfloat16])
def test_every_dtype_is_kept(dtype):
    entry = Entry(("a",), ("b", "c"), (Permute((1, 0)), Split(0, (1, 1))))
    array = np.arange(6).reshape(3, 2).astype(dtype)
    assert [moved.dtype for moved in entry((array,))] == [dtype, dtype]


def test_it_prints_on_a_line():
    assert str(Entry(("a", "b"), ("c",), (Join(0, (1, 2)),))) == "a, b → c  [join(axis 0 of (1, 2))]"
    assert str(Entry(("a",), ("b",))) == "a → b"


def test_a_sum_is_told_from_what_goes_back_bit_for_bit():
    turned = Permute((1, 0))
    assert Entry(("a", "b"), ("c",), (Tie(2), turned)).is_exact
    assert not Entry(("a", "b"), ("c",), (Sum(2),)).is_exact
    nested = EachBranch((Branch(1, (turned,), 1), Branch(2, (Sum(2),), 1)))
    assert not Entry(("a", "b", "c"), ("d", "e"), (nested,)).is_exact
    assert not Entry(("a", "b"), ("c",), (Sum(2),)).inverse().is_exact


def test_what_is_merged_has_no_way_back_and_says_whose_it_is():
    entry = Entry(("w", "a", "b"), ("kernel",), (Merge(2.0), Permute((1, 0))), shapes=((5, 3), (2, 3), (5, 2)))
    assert not entry.has_inverse
    assert not entry.is_exact
    assert not entry.sums
    assert entry.target_shapes() == ((3, 5),)
    with pytest.raises(WeightsMismatch, match=r"w, a, b → kernel .*cannot be separated"):
        entry.inverse()
    within = Entry(("w", "a", "b", "c"), ("x", "c"), (EachBranch((Branch(3, (Merge(2.0),), 1), Branch(1, (), 1))),))
    assert not within.has_inverse


def test_the_dtypes_are_the_first_source_s_or_what_it_is_widened_to():
    half, single = np.dtype(ml_dtypes.bfloat16), np.dtype("float32")
    split = Entry(("a",), ("b", "c"), (Split(0, (1, 3)),))
    assert split.dtypes(((4, 2),), (half,)) == (half, half)
    assert not split.changes_dtype
    widen = Entry(("q", "s"), ("w",), (Widen("bfloat16", "int8", (0, 0), ()), Permute((1, 0))))
    assert widen.changes_dtype
    assert not widen.is_exact
    assert widen.has_inverse
    assert widen.dtypes(((4, 2), ()), (np.dtype("int8"), single)) == (half,)
    assert widen.inverse().dtypes(((2, 4),), (half,)) == (np.dtype("int8"), single)
