"""The audit: layers and operators of a run, counted, and whether each has a pair."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from port.errors import UsageError
from port.translation.audit import audit


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.second(self.first(x)))
        x = x.reshape(x.shape[0] * 3)
        return torch.special.bessel_j0(x) + torch.special.bessel_j0(x + 1)


def test_what_is_unknown_comes_first_and_is_counted() -> None:
    found = audit(Mixed(), torch.ones(2, 3))
    rows = {row.name: row for row in found.rows}
    assert [row.name for row in found.unknown] == ["aten.special_bessel_j0"]
    assert found.rows[0] is found.unknown[0]
    assert found.unknown[0].count == 2 and found.unknown[0].why
    linear = rows["torch.nn.modules.linear.Linear"]
    assert (linear.kind, linear.count, linear.twin, linear.is_known) == ("layer", 2, "flax.nnx.Linear", True)
    assert {place.line for place in found.unknown[0].places} == {24}
    assert all(place.file == __file__ for row in found.rows for place in row.places)
    assert not any("sym_size" in name or name.startswith("_operator") for name in rows), "lengths are numbers"


def test_a_layer_alone() -> None:
    found = audit(nn.Conv2d(2, 3, 1), torch.ones(1, 2, 3, 3))
    assert [(row.name, row.count) for row in found.rows] == [("torch.nn.modules.conv.Conv2d", 1)]


def test_no_module() -> None:
    with pytest.raises(UsageError, match=r"a torch\.nn\.Module is translated, got the class Mixed"):
        audit(Mixed, torch.ones(2, 3))  # type: ignore[arg-type]
