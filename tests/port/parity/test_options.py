"""What a check takes as inputs: no empty batch, and empty arrays only beside others."""

from __future__ import annotations

import numpy as np
import pytest

from port.errors import UsageError
from port.parity.options import check_inputs
from port.parity.sides.inputs import Inputs


@pytest.mark.parametrize("shapes", [((0, 6),), ((1, 3, 0, 8),), ((1, 0), (3, 0))])
def test_an_empty_batch_is_refused(shapes: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(UsageError, match=r"has shape \(.*0.*\): there is nothing to compare; pass a batch"):
        check_inputs(Inputs(tuple(map(np.zeros, shapes)), {}))


@pytest.mark.parametrize(
    "shapes", [((2, 6),), ((), (3,)), ((1, 5), (1, 2, 0, 8)), ((2, 3), (0, 4)), ((), (1, 0, 4)), ((),)]
)
def test_an_array_that_is_empty_stands_beside_others(shapes: tuple[tuple[int, ...], ...]) -> None:
    check_inputs(Inputs(tuple(map(np.zeros, shapes)), {}))


def test_a_call_without_arrays_is_no_empty_batch() -> None:
    check_inputs(Inputs((3,), {"mode": "sum"}))
