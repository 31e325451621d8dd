"""torch's units: the projections inside attention, the cells inside recurrent layers, and their heads."""

from __future__ import annotations

import torch

from port.mapping.models import guide_of_torch
from port.matching.torch_units import torch_units
from port.matching.units import Unit


def units(module: torch.nn.Module) -> list[Unit]:
    return torch_units(guide_of_torch(module), dict(module.named_modules()))


def test_attention_has_its_projections_as_parts() -> None:
    (attention,) = units(torch.nn.ModuleDict({"a": torch.nn.MultiheadAttention(4, 2)}))
    assert [(part.place, part.family, part.seen) for part in attention.parts] == [
        ("a", "linear", ("a", None)),
        ("a.out_proj", "linear", (None, "a")),
    ]
    assert {part.heads for part in attention.parts} == {2}


def test_a_recurrent_layer_has_a_cell_for_each_layer_and_direction() -> None:
    (recurrent,) = units(torch.nn.ModuleDict({"r": torch.nn.LSTM(2, 3, 2, bidirectional=True)}))
    ends = [cell.names["weight_ih"].removeprefix("r.weight_ih") for cell in recurrent.parts]
    assert ends == ["_l0", "_l0_reverse", "_l1", "_l1_reverse"]
    assert {cell.family for cell in recurrent.parts} == {"LSTMCell"}


def test_heads_are_those_of_the_nearest_module_that_says_them() -> None:
    class Attention(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.num_heads, self.qkv = 4, torch.nn.Linear(8, 24)

    (qkv,) = units(torch.nn.Sequential(Attention()))
    assert qkv.heads == 4
