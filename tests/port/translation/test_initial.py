"""A written module without weights draws its parameters as the original does when it is new."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
import torchvision
from flax import nnx
from torch import nn

import port
from port.translation import Translation
from port.translation.initial import initializers

SAMPLES = 4


class Drawn(nn.Module):
    """Weights drawn by hand, each in another way."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 40, 3)
        nn.init.kaiming_normal_(self.conv.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(self.conv.bias)
        self.norm = nn.LayerNorm(40)
        nn.init.constant_(self.norm.weight, 0.5)
        self.first = nn.Linear(40, 60)
        nn.init.xavier_uniform_(self.first.weight)
        self.second = nn.Linear(60, 30)
        self.table = nn.Embedding(50, 30)
        nn.init.normal_(self.table.weight, std=0.02)
        self.token = nn.Parameter(torch.randn(1, 60) * 0.3)

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.conv(x).mean((2, 3)))
        return self.second(self.first(x) + self.token) + self.table(index)


def drawn(translation: Translation) -> dict[str, np.ndarray]:
    """The parameters of several new modules under torch's names, side by side."""
    found: dict[str, list[np.ndarray]] = {}
    for seed in range(SAMPLES):
        state = nnx.to_flat_state(nnx.state(translation.build(filled=False, seed=seed), nnx.Param))
        values = {".".join(map(str, path)): np.asarray(variable[...]) for path, variable in state}
        for entry in translation.mapping.entries:
            if entry.collection == "params":
                back = entry.inverse()(tuple(values[target] for target in entry.targets))
                for name, array in zip(entry.sources, back, strict=True):
                    found.setdefault(name, []).append(array)
    return {name: np.stack(arrays) for name, arrays in found.items()}


def assert_alike(translation: Translation, construct: Callable[[], nn.Module]) -> None:
    """Mean, spread and bounds of every parameter, as far as so many numbers tell them."""
    theirs: dict[str, list[np.ndarray]] = {}
    for seed in range(SAMPLES):
        torch.manual_seed(100 + seed)
        for name, parameter in construct().named_parameters():
            theirs.setdefault(name, []).append(parameter.detach().numpy())
    ours = drawn(translation)
    assert ours.keys() == theirs.keys()
    for name, arrays in theirs.items():
        a, b = np.stack(arrays), ours[name]
        spread = float(a.std())
        assert abs(a.mean() - b.mean()) <= 6 * spread * (2 / a.size) ** 0.5 + 1e-12, name
        assert abs(b.std() - spread) <= max(0.04, 6 / a.size**0.5) * spread, name
        assert 0.6 * abs(a).max() - 1e-12 <= abs(b).max() <= 1.6 * abs(a).max() + 1e-12, name


@pytest.mark.sweep
def test_what_is_drawn_by_hand_is_drawn_so() -> None:
    torch.manual_seed(0)
    inputs = (torch.randn(2, 3, 5, 6), torch.tensor([3, 7]))
    translation = port.translate(Drawn(), inputs, check=False, construct=Drawn)
    assert_alike(translation, Drawn)
    assert "second = nnx.Linear(60, 30, kernel_init=torch_kernel(), bias_init=torch_bias(60)" in translation.source
    assert 'variance_scaling(2.0, "fan_out", "normal")' in translation.source


def test_values_of_no_standard_distribution_have_none() -> None:
    generator = np.random.default_rng(0)
    assert not initializers([generator.random(500) + 1.0], None)
    assert not initializers([np.sign(generator.standard_normal(500))], None)
    assert initializers([0.02 * generator.standard_normal(500)], None)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("construct", "size"),
    [
        (torchvision.models.resnet18, 64),
        pytest.param(partial(torchvision.models.vit_b_16, image_size=32), 32, marks=pytest.mark.benchmark),
    ],
    ids=("resnet18", "vit_b_16"),
)
def test_torchvisions_models_are_drawn_as_torch_draws_them(construct: Callable[[], nn.Module], size: int) -> None:
    translation = port.translate(construct(), torch.randn(2, 3, size, size), check=False, construct=construct)
    assert not translation.drawn_otherwise
    assert_alike(translation, construct)
