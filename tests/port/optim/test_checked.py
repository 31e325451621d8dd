"""Options as Python's own numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from port.errors import UsageError
from port.optim import checked


@pytest.mark.parametrize("given", [2, 0.5, 0, float("inf"), torch.tensor(0.5), np.float64(0.5), np.array(3)])
def test_a_number_is_pythons_own(given: Any) -> None:
    found = checked.number("clip_norm", given)
    assert found == float(given)
    assert type(found) in (int, float)


@pytest.mark.parametrize("given", [-0.5, "a", True, float("nan"), torch.tensor([1.0, 2.0]), [1.0]])
def test_no_number_is_refused(given: Any) -> None:
    with pytest.raises(UsageError, match=r"clip_norm must be a number of 0 or more; got"):
        checked.number("clip_norm", given)


def test_the_order_of_a_norm() -> None:
    infinite = float("inf")
    given: list[Any] = [2, 1.5, "inf", -infinite, torch.tensor(3.0)]
    assert [checked.order("norm_type", one) for one in given] == [2.0, 1.5, infinite, -infinite, 3.0]
    for one in ("x", None, True, float("nan")):
        with pytest.raises(UsageError, match=r"norm_type must be the order of a norm"):
            checked.order("norm_type", one)


def test_a_whole_number() -> None:
    assert [checked.whole("steps", one, least=1) for one in (1, np.int64(4), torch.tensor(7))] == [1, 4, 7]
    for one in (0, 2.5, 4.0, "4", True, None):
        with pytest.raises(UsageError, match=r"steps must be a whole number, 1 or more; got"):
            checked.whole("steps", one, least=1)


def test_a_flag() -> None:
    assert checked.flag("accumulate_mean", np.bool_(True)) is True
    with pytest.raises(UsageError, match=r"accumulate_mean must be True or False; got 4"):
        checked.flag("accumulate_mean", 4)
