"""Linear layers that may stand behind a flatten of features are pointed out, and no others."""

from __future__ import annotations

import pytest
import torch
from flax import nnx

from port.mapping import between, guide_of_flax, guide_of_torch
from port.mapping.flatten import suspects


def net(*layers: torch.nn.Module) -> torch.nn.Module:
    return torch.nn.Sequential(*layers)


def found(model: torch.nn.Module, **more) -> list[tuple[str, int, str, int]]:
    listed = suspects(between(model, **more).entries, guide_of_torch(model))
    return [(suspect.path, suspect.inputs, suspect.behind, suspect.channels) for suspect in listed]


@pytest.mark.parametrize(
    ("spatial", "behind"),
    [
        ([torch.nn.Conv2d(3, 5, 3)], "0"),
        ([torch.nn.Conv2d(3, 5, 3, bias=False), torch.nn.BatchNorm2d(5)], "1"),
        ([torch.nn.ConvTranspose2d(3, 5, 3)], "0"),
        ([torch.nn.Conv2d(3, 5, 3), torch.nn.GroupNorm(1, 5)], "1"),
    ],
)
def test_a_multiple_of_the_channels_before_it_is_suspect(spatial, behind):
    model = net(*spatial, torch.nn.Flatten(), torch.nn.Linear(20, 4), torch.nn.Linear(4, 40))
    assert found(model) == [(str(len(spatial) + 1), 20, behind, 5)]


@pytest.mark.parametrize(
    "model",
    [
        net(torch.nn.Conv2d(3, 5, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(5, 4)),
        net(torch.nn.Conv2d(3, 5, 3), torch.nn.Linear(21, 4)),
        net(torch.nn.Conv2d(3, 1, 3), torch.nn.Linear(20, 4)),
        net(torch.nn.Linear(20, 4), torch.nn.Linear(4, 20)),
        net(torch.nn.Linear(20, 4), torch.nn.Conv2d(4, 5, 3)),
    ],
)
def test_others_are_not(model):
    assert found(model) == []


class Listed(torch.nn.Module):
    """Layers that are called one by one, as a recurrent model calls them."""

    def __init__(self, *layers: torch.nn.Module) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)


CONV = torch.nn.Conv2d(3, 4, 3)


@pytest.mark.parametrize(
    "layers",
    [
        (torch.nn.GRU(4, 8),),
        (torch.nn.BatchNorm2d(4), torch.nn.LSTM(4, 4, bidirectional=True)),
        (torch.nn.GRUCell(4, 8),),
        (torch.nn.MultiheadAttention(8, 2), torch.nn.LayerNorm(8)),
        (torch.nn.TransformerEncoderLayer(8, 2, 12),),
        (torch.nn.Embedding(5, 8),),
        (torch.nn.AdaptiveAvgPool2d(1), torch.nn.Dropout()),
        (torch.nn.AdaptiveMaxPool2d((1, 1)),),
    ],
)
def test_features_that_pass_another_kind_of_layer_are_not(layers):
    """Nothing is flattened there any more, whatever the numbers say."""
    assert found(Listed(CONV, *layers, torch.nn.Linear(8, 2))) == []


@pytest.mark.parametrize(
    "layers",
    [
        (torch.nn.PReLU(4),),
        (torch.nn.LayerNorm((4, 2, 1)), torch.nn.Dropout()),
        (torch.nn.AdaptiveAvgPool2d((2, 1)),),
        (torch.nn.MaxPool2d(2), torch.nn.ReLU()),
    ],
)
def test_features_that_stay_in_their_places_are(layers):
    assert [path for path, *_ in found(Listed(CONV, *layers, torch.nn.Linear(8, 2)))] == [f"layers.{1 + len(layers)}"]


def test_what_is_folded_is_not():
    model = net(torch.nn.Conv2d(3, 5, 3), torch.nn.Flatten(), torch.nn.Linear(20, 4))
    assert found(model, fold={"2": (5, 2, 2)}) == []


def test_the_flax_side_tells_it_too():
    model = nnx.Dict(a=nnx.Conv(3, 5, (3, 3), rngs=nnx.Rngs(0)), b=nnx.Linear(20, 4, rngs=nnx.Rngs(0)))
    (suspect,) = suspects(between(None, model).entries, guide_of_flax(model))
    assert (suspect.path, suspect.behind) == ("b", "a")


def test_it_says_what_to_type():
    model = net(torch.nn.Conv2d(3, 5, 3), torch.nn.Flatten(), torch.nn.Linear(20, 4))
    (square,) = suspects(between(model).entries, guide_of_torch(model))
    assert "2 takes 20 = 5 × 4 features and comes after 0 (5 channels)" in str(square)
    assert str(square).endswith("--fold 2=5,2,2")
    model = net(torch.nn.Conv2d(3, 5, 3), torch.nn.Flatten(), torch.nn.Linear(30, 4))
    assert str(suspects(between(model).entries, guide_of_torch(model))[0]).endswith("--fold 2=5,HEIGHT,WIDTH")
