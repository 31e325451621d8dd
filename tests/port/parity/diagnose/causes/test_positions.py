"""Places along an axis: the other end, the next one."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from port.parity.diagnose.causes.operation import TorchOperation
from port.parity.diagnose.causes.positions import sliced

TABLE = torch.arange(24.0).reshape(2, 3, 4)


def told(index: Any) -> dict[str, list[torch.Tensor]]:
    operation = TorchOperation(0, "getitem", {"0": TABLE, "1": index}, "", function=torch.Tensor.__getitem__)
    made: dict[str, list[torch.Tensor]] = {}
    for way in sliced(operation):
        made.setdefault(way.kind, []).append(way.run(operation.function, operation.arguments))
    return made


@pytest.mark.parametrize(
    ("index", "kind", "wanted"),
    [
        ((slice(None), slice(2)), "other-end", TABLE[:, 1:]),
        ((slice(None), slice(1, None)), "other-end", TABLE[:, :2]),
        ((..., slice(3)), "other-end", TABLE[..., 1:]),
        ((slice(None), 0), "position-offset", TABLE[:, 1]),
        ((..., 2), "position-offset", TABLE[..., 3]),
        ((slice(None), 0), "other-end", TABLE[:, -1]),
    ],
)
def test_what_may_be_taken(index: Any, kind: str, wanted: torch.Tensor) -> None:
    assert any(torch.equal(each, wanted) for each in told(index)[kind])


def test_the_whole_axis_has_no_other_end() -> None:
    assert told((slice(None), slice(0, 3))) == {}
    assert "other-end" not in told((slice(None), slice(1, 2)))
