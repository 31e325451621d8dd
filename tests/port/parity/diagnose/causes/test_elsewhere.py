"""What Flax has is found among other values of torch's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from port.parity.diagnose.causes.between import Relation
from port.parity.diagnose.causes.elsewhere import elsewhere
from port.parity.diagnose.causes.operation import TorchOperation

READ = np.random.default_rng(3).normal(size=(3, 6, 8))
LAST = np.array([2, 5, 3])
STATES = np.concatenate([READ[np.arange(3), LAST, :4], READ[:, 0, 4:]], -1)
OPERATIONS = [TorchOperation(0, "gru", {}, "encoder", result=torch.from_numpy(READ))]


def found(theirs: np.ndarray, ours: np.ndarray, operations: Any = OPERATIONS) -> list[Relation]:
    target: Any = SimpleNamespace(arrays=lambda: [(theirs, ours)], limit=1e-10)
    return list(elsewhere(target, operations))


def test_the_other_half_of_another_place() -> None:
    (said,) = found(STATES, READ[np.arange(3), LAST])
    assert said.kind == "another-place"
    assert "in features 4 to 8 places 2, 5, 3 along axis 1, features 4 to 8, of what gru gives in encoder" in said.why


def test_one_place_of_all_features() -> None:
    (said,) = found(STATES, READ[:, -1])
    assert "Flax has place 5 along axis 1 of what gru gives" in said.why


def test_rows_in_another_order() -> None:
    (said,) = found(READ, READ.swapaxes(0, 1).reshape(READ.shape), [])
    assert said.kind == "row-order"


def test_zeros() -> None:
    (said,) = found(STATES, np.zeros_like(STATES))
    assert said.kind == "zeros"


@pytest.mark.parametrize(
    "ours",
    [STATES, STATES + 1e-3, READ[:, -1] * 1.001, np.where(np.arange(8) == 2, 0.0, STATES), READ[:, 0, ::-1]],
)
def test_nothing_is_told_of_anything_else(ours: np.ndarray) -> None:
    assert found(STATES, ours) == []
