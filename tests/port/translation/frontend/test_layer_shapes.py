"""Which layers are identical: those with the same output shapes for the same inputs."""

from __future__ import annotations

import pytest
from torch import nn

from port.translation.frontend.layer_shapes import description


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 3)),
        (nn.BatchNorm2d(5), nn.BatchNorm2d(5)),
        (nn.MultiheadAttention(8, 2), nn.MultiheadAttention(8, 2)),
    ],
)
def test_alike(one: nn.Module, other: nn.Module) -> None:
    assert description(one) is not None
    assert description(one) == description(other)
    assert hash(description(one)) == hash(description(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 3, stride=2)),
        (nn.Conv2d(3, 4, 3), nn.Conv2d(3, 5, 3)),
        (nn.AvgPool1d(2), nn.MaxPool1d(2)),
        (nn.MultiheadAttention(8, 2), nn.MultiheadAttention(8, 2, batch_first=True)),
        (nn.ReLU(), nn.ReLU().eval()),
    ],
)
def test_not_alike(one: nn.Module, other: nn.Module) -> None:
    assert description(one) != description(other)


class Own(nn.Linear):
    pass


def test_of_others_nobody_knows() -> None:
    hooked = nn.Linear(2, 3)
    hooked.register_forward_hook(lambda module, args, result: result[:1])
    assert description(Own(2, 3)) is None
    assert description(hooked) is None
    assert description(nn.Sequential(hooked)) is None
