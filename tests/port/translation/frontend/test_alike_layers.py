"""Identical layers are run once per input shape on fake tensors; all others every time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from port.translation.frontend.alike_layers import AlikeLayers


class Several(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)


def runs(monkeypatch: pytest.MonkeyPatch, layers: list[nn.Module], *given: Any) -> tuple[int, list[Any]]:
    """How often the first layer's class is run on the inputs of several layers, and the results."""
    module = Several(*layers)
    count, forward = 0, type(layers[0]).forward

    def counted(self: Any, *args: Any) -> Any:
        nonlocal count
        count += 1
        return forward(self, *args)

    monkeypatch.setattr(type(layers[0]), "forward", counted)
    with AlikeLayers(module, [f"layers.{number}" for number in range(len(layers))]).run_once():
        made = [layer(*given) for layer in layers]
    assert all("forward" not in vars(layer) for layer in layers), "the layers are left as they were"
    return count, made


def faked(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return FakeTensorMode(allow_non_fake_inputs=True).from_tensor(torch.ones(shape, dtype=dtype))


def test_alike_layers_are_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x = faked(2, 3, 7, 5)
    with x.fake_mode:
        layers = [nn.Conv2d(3, 4, (3, 2)), nn.Conv2d(3, 4, (3, 2)), nn.Conv2d(3, 4, (3, 2), stride=2)]
        count, made = runs(monkeypatch, layers, x)
    assert count == 2
    assert [tuple(each.shape) for each in made] == [(2, 4, 5, 4), (2, 4, 5, 4), (2, 4, 3, 2)]
    assert made[0] is not made[1] and made[0].stride() == made[1].stride()


@pytest.mark.parametrize("indices", [torch.tensor([0, 4]), faked(2, dtype=torch.int64)])
def test_an_index_is_looked_at_each_time(monkeypatch: pytest.MonkeyPatch, indices: torch.Tensor) -> None:
    count, _ = runs(monkeypatch, [nn.Embedding(5, 3), nn.Embedding(5, 3)], indices)
    assert count == 2


def test_numbers_are_computed_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = [nn.Linear(3, 2), nn.Linear(3, 2)]
    count, made = runs(monkeypatch, list(layers), torch.randn(4, 3))
    assert count == 2 and not torch.equal(*made)


def test_a_layer_that_gives_its_input_gives_that_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = faked(4, 3), faked(4, 3)
    module = Several(nn.Identity(), nn.Identity())
    with AlikeLayers(module, ["layers.0", "layers.1"]).run_once():
        assert module.layers[0](x) is x and module.layers[1](y) is y
