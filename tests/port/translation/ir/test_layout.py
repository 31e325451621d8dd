"""Layouts agree with numpy's transposes."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from port.translation.ir.layout import (
    Folded,
    Layout,
    channels_last,
    moved,
    of_lower_rank,
    permuted,
    torchs,
    with_new,
    without,
)

BLOCK = (2, 3, 2)


@st.composite
def layouts(draw: st.DrawFn, least: int = 0, folds: bool = True) -> Layout:
    """Any order of up to five axes; sometimes one of them is a flattened block in another order."""
    rank = draw(st.integers(least, 5))
    order = tuple(draw(st.permutations(range(rank))))
    if not folds or not rank or not draw(st.booleans()):
        return Layout(order)
    return Layout(order, Folded(draw(st.integers(0, rank - 1)), BLOCK, tuple(draw(st.permutations(range(3))))))


def tensor_of(layout: Layout) -> np.ndarray:
    """torch's tensor beside an array of that layout: every axis has a length of its own, every number too."""
    shape = [k + 2 for k in range(layout.rank)]
    if layout.folded is not None:
        shape[layout.folded.axis] = prod(BLOCK)
    return np.arange(prod(shape)).reshape(shape)


def laid_out(tensor: np.ndarray, layout: Layout) -> np.ndarray:
    """The array of a layout, by its definition."""
    folded = layout.folded
    if folded is not None:
        before, after = tensor.shape[: folded.axis], tensor.shape[folded.axis + 1 :]
        apart = tensor.reshape(*before, *folded.shape, *after)
        axes = [folded.axis + part for part in folded.order]
        rest = range(folded.axis + len(axes), apart.ndim)
        tensor = apart.transpose(*range(folded.axis), *axes, *rest).reshape(tensor.shape)
    return tensor.transpose(layout.order)


@settings(deadline=None, max_examples=50)
@given(layouts())
def test_an_axis_is_where_the_array_has_it(layout: Layout) -> None:
    tensor = tensor_of(layout)
    array = laid_out(tensor, layout)
    for dim in range(layout.rank):
        assert array.shape[layout.axis(dim)] == tensor.shape[dim]
        assert layout.axis(dim - layout.rank) == layout.axis(dim)


@settings(deadline=None, max_examples=50)
@given(layouts(folds=False), st.data())
def test_what_is_moved_to_another_order_and_back_is_the_same(layout: Layout, data: st.DataObject) -> None:
    other = Layout(tuple(data.draw(st.permutations(range(layout.rank)))))
    tensor = tensor_of(layout)
    there = laid_out(tensor, layout).transpose(moved(layout, other))
    assert np.array_equal(there, laid_out(tensor, other))
    assert np.array_equal(there.transpose(moved(other, layout)), laid_out(tensor, layout))


@settings(deadline=None, max_examples=50)
@given(layouts(), st.data())
def test_a_permutation_leaves_the_array_as_it_is(layout: Layout, data: st.DataObject) -> None:
    dims = tuple(data.draw(st.permutations(range(layout.rank))))
    counted = tuple(dim - layout.rank if data.draw(st.booleans()) else dim for dim in dims)
    tensor = tensor_of(layout)
    assert np.array_equal(laid_out(tensor.transpose(dims), permuted(layout, counted)), laid_out(tensor, layout))


@settings(deadline=None, max_examples=50)
@given(layouts(least=1), st.data())
def test_axes_that_are_taken_out(layout: Layout, data: st.DataObject) -> None:
    fold = None if layout.folded is None else layout.folded.axis
    gone = data.draw(st.sets(st.sampled_from([dim for dim in range(layout.rank) if dim != fold] or [0])))
    if fold in gone:
        return  # a first element of a block in another order is the first in both
    tensor = tensor_of(layout)
    theirs = tensor[tuple(0 if dim in gone else slice(None) for dim in range(layout.rank))]
    ours = laid_out(tensor, layout)[tuple(0 if dim in gone else slice(None) for dim in layout.order)]
    assert np.array_equal(ours, laid_out(theirs, without(layout, gone)))


def test_a_block_goes_with_its_axis() -> None:
    layout = Layout((1, 0), Folded(1, BLOCK, (1, 2, 0)))
    assert without(layout, {1}) == torchs(1)
    assert without(layout, {0}) == Layout((0,), Folded(0, BLOCK, (1, 2, 0)))


@settings(deadline=None, max_examples=50)
@given(layouts(), st.data())
def test_a_new_axis(layout: Layout, data: st.DataObject) -> None:
    dim = data.draw(st.integers(0, layout.rank))
    tensor = tensor_of(layout)
    after, place = with_new(layout, dim)
    ours = np.expand_dims(laid_out(tensor, layout), place)
    assert np.array_equal(ours, laid_out(np.expand_dims(tensor, dim), after))
    assert without(after, {dim}) == layout
    assert not layout.is_torchs or after.is_torchs


@settings(deadline=None, max_examples=50)
@given(layouts(folds=False), st.data())
def test_a_lower_rank_broadcasts_as_in_torch(layout: Layout, data: st.DataObject) -> None:
    tensor = tensor_of(layout)
    other = tensor.max(axis=tuple(range(data.draw(st.integers(0, layout.rank)))), initial=0)
    lower = of_lower_rank(layout, other.ndim)
    lacking = layout.rank - other.ndim
    if lower is None:
        # An axis in between, which the other lacks.
        assert set(layout.order[:lacking]) != set(range(lacking))
        return
    assert np.array_equal(laid_out(tensor, layout) + laid_out(other, lower), laid_out(tensor + other, layout))


@pytest.mark.parametrize(("rank", "axis", "order"), [(4, 1, (0, 2, 3, 1)), (3, -3, (1, 2, 0)), (2, 1, (0, 1))])
def test_channels_last(rank: int, axis: int, order: tuple[int, ...]) -> None:
    assert channels_last(rank, axis) == Layout(order)


def test_whether_it_lies_as_in_torch() -> None:
    assert torchs(3).is_torchs and torchs(0).is_torchs
    assert not Layout((1, 0)).is_torchs
    assert not Layout((0, 1), Folded(1, BLOCK, (1, 2, 0))).is_torchs
    assert str(Layout((1, 0))) == "(1, 0)"
    assert "(1, 2, 0)" in str(Layout((0,), Folded(0, BLOCK, (1, 2, 0))))
