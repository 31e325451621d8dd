"""Flattening: the spatial features that may be behind a linear layer's input, the likeliest first."""

from __future__ import annotations

import torch

from port.mapping.models import guide_of_torch
from port.matching.activations import torch_activations
from port.matching.flattening import flattened_shapes
from port.matching.torch_units import torch_units
from port.parity.sides.cotangents import RandomCotangents
from port.parity.sides.inputs import inputs_from
from port.parity.sides.torch_side import TorchSide


def found(*layers: torch.nn.Module) -> dict[str, tuple[tuple[int, ...], ...]]:
    module = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3, padding=1), *layers)
    run = TorchSide(module, "float64").run(
        inputs_from(torch.rand(2, 2, 4, 6), "float64"), RandomCotangents(), training=False
    )
    units = torch_units(guide_of_torch(module), dict(module.named_modules()))
    return flattened_shapes(run, units, torch_activations(run))


class Features(torch.nn.Module):
    """A linear layer behind a pooling that is no layer, which leaves half the height and width."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(18, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(torch.nn.functional.avg_pool2d(x, 2).flatten(1))


def test_a_layer_before_shows_the_shape() -> None:
    assert found(torch.nn.Flatten(), torch.nn.Linear(72, 5), torch.nn.Linear(5, 4)) == {"2": ((3, 4, 6),)}


def test_a_pooling_that_is_no_layer_keeps_the_proportion() -> None:
    assert found(Features()) == {"1.fc": ((3, 2, 3),)}


def test_one_number_a_channel_needs_no_fold() -> None:
    assert found(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, 5)) == {}


class OverPositions(torch.nn.Module):
    """A linear layer over the channels of every position, which a row of positions divides."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.fc = torch.nn.Conv2d(3, 6, 1), torch.nn.LayerNorm(6), torch.nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.norm(self.conv(x).permute(0, 2, 3, 1)))


def test_a_layer_over_channels_last_has_no_flatten() -> None:
    assert found(torch.nn.AdaptiveAvgPool2d((3, 3)), OverPositions()) == {}
    assert found(torch.nn.AdaptiveAvgPool2d((2, 3)), OverPositions()) == {}


class OverTime(torch.nn.Module):
    """Channels and frequencies in one row for each moment, as speech has them."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(18, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x.permute(0, 2, 1, 3).flatten(2))


def test_what_is_kept_beside_the_row_is_not_in_it() -> None:
    assert found(OverTime()) == {"1.fc": ((3, 6),)}
