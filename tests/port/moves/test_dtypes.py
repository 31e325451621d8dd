"""The dtypes that moves give, without any array: those of the arrays that they give."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from port.moves import Widen, dtypes_of


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_they_are_those_of_the_arrays(data, chains):
    moves, arrays = data.draw(chains)
    shapes, dtypes = tuple(array.shape for array in arrays), tuple(array.dtype for array in arrays)
    told = dtypes_of(moves, shapes, dtypes)
    for move in moves:
        arrays = move(arrays)
    assert told == tuple(array.dtype for array in arrays)


def test_a_widened_weight_s_are_those_that_it_says():
    widen = Widen("float64", "int8", (1, 0), (3,))
    given_arrays = np.full((3, 2), 127, np.int8), np.ones(3, np.float32)
    there = dtypes_of((widen,), ((3, 2), (3,)), tuple(array.dtype for array in given_arrays))
    assert there == tuple(array.dtype for array in widen(given_arrays)) == (np.dtype("float64"),)
    back = dtypes_of((widen.inverse(),), ((3, 2),), there)
    assert back == tuple(array.dtype for array in widen.inverse()(widen(given_arrays)))
