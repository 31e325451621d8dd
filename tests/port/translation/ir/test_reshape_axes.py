"""Groups of a reshape agree with numpy's reshape."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from port.translation.ir.graph import Size
from port.translation.ir.reshape_axes import AxisGroup, groups


@st.composite
def reshapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes of as many elements: the same factors, multiplied together in two ways, with ones in between."""
    factors = draw(st.lists(st.sampled_from([2, 3, 5]), max_size=5))
    return _shape(draw, factors), _shape(draw, factors)


def _shape(draw: st.DrawFn, factors: list[int]) -> tuple[int, ...]:
    shape: list[int] = []
    for factor in factors:
        if shape and draw(st.booleans()):
            shape[-1] *= factor
        else:
            shape.append(factor)
        if draw(st.integers(0, 5)) == 0:
            shape.append(1)
    return tuple(shape)


@settings(deadline=None, max_examples=50)
@given(reshapes())
def test_every_axis_is_in_one_group_and_groups_have_as_many_elements(
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    before, after = shapes
    found = groups(before, after)
    assert found is not None
    assert [dim for group in found for dim in group.before] == list(range(len(before)))
    assert [dim for group in found for dim in group.after] == list(range(len(after)))
    for group in found:
        assert prod(before[dim] for dim in group.before) == prod(after[dim] for dim in group.after)


@settings(deadline=None, max_examples=50)
@given(reshapes(), st.data())
def test_groups_may_be_reordered_before_the_reshape_or_after_it(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], data: st.DataObject
) -> None:
    before, after = shapes
    found = groups(before, after)
    assert found is not None
    order = data.draw(st.permutations(found))
    tensor = np.arange(prod(before)).reshape(before)
    first = [dim for group in order for dim in group.before]
    last = [dim for group in order for dim in group.after]
    ours = tensor.transpose(first).reshape([after[dim] for dim in last])
    assert np.array_equal(ours, tensor.reshape(after).transpose(last))


@settings(deadline=None, max_examples=50)
@given(reshapes())
def test_no_group_could_be_two(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    before, after = shapes
    for group in groups(before, after) or ():
        mine = [prod(before[dim] for dim in group.before[:k]) for k in range(1, len(group.before))]
        theirs = [prod(after[dim] for dim in group.after[:k]) for k in range(1, len(group.after))]
        assert not set(mine) & set(theirs)


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (("s0", 4, 6), ("s0", 24), [((0,), (0,)), ((1, 2), (1,))]),
        (("s0", "s1", 4), ("s0*s1", 4), [((0, 1), (0,)), ((2,), (1,))]),
        (("s0", 12), ("3*s0", 4), [((0, 1), (0, 1))]),
        (("s0", 1), ("s0",), [((0,), (0,)), ((1,), ())]),
        (("s0",), (1, "s0"), [((), (0,)), ((0,), (1,))]),
        (("s0 + 1", 6), ("s0 + 1", 2, 3), [((0,), (0,)), ((1,), (1, 2))]),
        (("2*s0 + 2", 3), (2, "s0 + 1", 3), [((0,), (0, 1)), ((1,), (2,))]),
        ((), (), []),
    ],
)
def test_symbols(
    before: tuple[Size, ...], after: tuple[Size, ...], found: list[tuple[tuple[int, ...], tuple[int, ...]]]
) -> None:
    assert groups(before, after) == [AxisGroup(*group) for group in found]


@pytest.mark.parametrize(("before", "after"), [(("s0", 4), ("s1", 4)), (("s0",), ("s0", 2)), ((6,), (4,)), ((), (2,))])
def test_nothing_is_said_where_the_lengths_do_not_tell(before: tuple[Size, ...], after: tuple[Size, ...]) -> None:
    assert groups(before, after) is None
