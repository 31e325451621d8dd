"""0-d tensors with a dim argument: torch accepts 0 and −1, JAX does not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import port

pytestmark = pytest.mark.filterwarnings("ignore:`flax.nnx.State` will be deprecated:DeprecationWarning")


class AlongNothing(nn.Module):
    """Reductions, scans, orders and choices along the axis that a number does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(1.7))

    def forward(self, x: Tensor) -> list[Tensor]:
        total = x.mul(self.temperature).sum()
        largest, where = torch.max(total, 0)
        return [
            torch.softmax(total, -1),
            torch.cumsum(total, 0),
            largest,
            where,
            torch.quantile(total, 0.5, dim=0),
            torch.quantile(total, 0.5, dim=-1, keepdim=True),
            torch.sort(total, 0).values,
            torch.index_select(total, 0, torch.tensor([0])),
        ]


@pytest.mark.sweep
def test_a_number_is_a_list_of_one() -> None:
    made = port.translate(AlongNothing(), torch.randn(3, 4))
    assert made.proof is not None and made.proof.agrees and not made.unwritten, str(made.proof)
    assert "[None]" in made.source


class Unknown(nn.Module):
    """An operator that no pair covers; its result is read, or not."""

    def __init__(self, read: bool) -> None:
        super().__init__()
        self.read = read

    def forward(self, x: Tensor) -> Tensor:
        packed, _ = torch.geqrf(x)
        return x @ packed if self.read else 2 * x


@pytest.mark.sweep
def test_what_is_not_read_is_not_missed() -> None:
    made = port.translate(Unknown(False), torch.randn(3, 3))
    assert made.proof is not None and made.proof.agrees and not made.unwritten


def test_what_no_pair_speaks_of_is_told_with_its_arguments() -> None:
    made = port.translate(Unknown(True), torch.randn(3, 3))
    (missing,) = made.unwritten
    assert missing.what == "aten.geqrf"
    assert missing.why.startswith("no pair covers this operator with these arguments: self: float64 (")


class OnlyWritten(nn.Module):
    """Only a buffer reads the result of an operator that no pair covers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("packed", torch.zeros(3, 3))

    def forward(self, x: Tensor) -> Tensor:
        self.packed.copy_(torch.geqrf(x.detach())[0])
        return 2 * x


def test_what_a_buffer_takes_is_read() -> None:
    made = port.translate(OnlyWritten(), torch.randn(3, 3))
    assert [missing.what for missing in made.unwritten] == ["aten.geqrf"]


class Ignores(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return 2 * x


class HandsOn(nn.Module):
    """The result of an operator that no pair covers is passed to a part that ignores it."""

    def __init__(self) -> None:
        super().__init__()
        self.part = Ignores()

    def forward(self, x: Tensor) -> Tensor:
        return self.part(x, torch.geqrf(x)[0])


@pytest.mark.sweep
def test_what_a_part_is_given_is_read() -> None:
    made = port.translate(HandsOn(), torch.randn(3, 3))
    assert [missing.what for missing in made.unwritten] == ["aten.geqrf"]
