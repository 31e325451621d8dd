"""A tensor with several names gets one canonical name."""

from __future__ import annotations

import torch
from torch import nn

from port.translation.frontend.canonical_names import with_canonical_names
from port.translation.ir.graph import Graph, Value


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.randn(3, 2))
        self.second = self.first
        self.embed, self.head = nn.Embedding(7, 2), nn.Linear(2, 7, bias=False)
        self.head.weight = self.embed.weight
        self.own = self.embed.weight


def test_the_name_of_a_layer_kept_whole_comes_first() -> None:
    root = Tied()
    values = {Value(name, (1,), "float32"): name for name in ("first", "second", "own", "head.weight", "embed.weight")}
    graph = Graph((), dict(values), {}, ())
    made = with_canonical_names(root, {"embed": root.embed, "head": root.head}, graph)
    assert list(made.held.values()) == ["first", "first", "embed.weight", "embed.weight", "embed.weight"]
    assert graph.held == values, "the graph that was given stays as it is"
