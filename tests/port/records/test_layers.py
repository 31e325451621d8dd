"""The names of a model's layers."""

from __future__ import annotations

from torch import nn

from port.records import layer_names


class Wider(nn.Linear):
    pass


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.ReLU(), nn.Sequential(nn.Linear(2, 2), nn.ReLU(), Wider(2, 2))


def test_leaves_are_named_once_and_containers_not():
    linear = "torch.nn.modules.linear.Linear"
    assert layer_names(Block()) == sorted([linear, "torch.nn.modules.activation.ReLU", f"{__name__}.Wider"])
    assert layer_names(nn.Linear(2, 2)) == [linear]


def test_a_layer_of_torchs_that_has_children_is_named():
    assert "torch.nn.modules.activation.MultiheadAttention" in layer_names(nn.MultiheadAttention(4, 2))
