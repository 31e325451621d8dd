"""How much of a comparison is run follows from what it costs: all, a smaller batch, parts, no gradients, nothing."""

from __future__ import annotations

import numpy as np
import pytest

from port.parity.sides import fitting
from port.parity.sides.cost import Cost
from port.parity.sides.extent import Budget, Extent
from port.parity.sides.inputs import Inputs

GIVEN = Inputs((np.zeros((8, 3)),), {})
MB = 1e6


@pytest.fixture(autouse=True)
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "bytes_free", lambda: 100 * MB)


def extent(cost: Cost, *, may_shrink: bool = True, time_limit: float = 900.0) -> Extent:
    """Of a model whose results grow with the batch."""

    def of(inputs: Inputs) -> Cost:
        return cost.scaled(len(inputs.args[0]) / 8)

    return Budget(steps=3, time_limit=time_limit).extent(GIVEN, of, may_shrink=may_shrink)


def test_all_of_it() -> None:
    found = extent(Cost(held=1 * MB, results=1 * MB))
    assert found == Extent(GIVEN, found.seconds) and 0 < found.seconds < 1


def test_a_smaller_batch_where_results_are_large() -> None:
    found = extent(Cost(held=1 * MB, results=100 * MB))
    (remark,) = found.remarks
    assert len(found.inputs.args[0]) == 4 and remark.startswith("compared with a batch of 4 in place of 8: about ")
    assert (found.parts, found.without_gradients, found.refused) == (1, "", "")


def test_a_smaller_batch_where_it_takes_long() -> None:
    found = extent(Cost(results=MB, products=20e9), time_limit=5)
    (remark,) = found.remarks
    assert len(found.inputs.args[0]) == 8 // 2 and "the time limit is 5 seconds" in remark
    assert found.seconds <= 5


def test_parts_where_parameters_are_large() -> None:
    """A smaller batch helps nothing there; 4 of 6 copies stay whole."""
    found = extent(Cost(held=22 * MB, results=1 * MB))
    assert found.inputs is GIVEN and found.parts == 2 and not found.without_gradients
    assert found.said_of_parts(2).startswith("gradients were compared in 2 parts: ")


def test_no_gradients_where_results_are_large_and_the_batch_stays() -> None:
    found = extent(Cost(held=1 * MB, results=100 * MB), may_shrink=False)
    assert found.inputs is GIVEN and "gradients" in found.without_gradients and not found.refused


def test_nothing_where_the_parameters_alone_do_not_fit() -> None:
    found = extent(Cost(held=200 * MB, results=1 * MB))
    assert found.refused == found.without_gradients != ""
