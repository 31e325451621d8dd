"""Direct reads of parameters: the module's own have a free layout, a layer's have its twin's."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from port.errors import NoPair
from port.translation.ir.layout import Layout

from ...ir.graphs import operation, value
from ..by_hand import lowered_graph


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.own = nn.Parameter(torch.randn(5, 3))
        self.conv = nn.Conv2d(3, 5, 2)
        self.register_buffer("sparse", torch.eye(5).to_sparse())


OWN, KERNEL, SPARSE, X = value("own", 5, 3), value("kernel", 5, 3, 2, 2), value("sparse", 5, 5), value("x", 2)


def test_ones_own_lies_as_it_is_given() -> None:
    y = value("y", 5, 3)
    relu = operation("aten.relu.default", y, self=OWN)
    options = {"inputs": [X], "results": (), "held": {OWN: "own"}, "model": Net()}
    for order in ((0, 1), (1, 0)):
        lowered, texts = lowered_graph(relu, chosen={"own": Layout(order)}, **options)
        assert texts == ["jax.nn.relu(@|own[...])"] and lowered.layouts[y].order == order


def test_a_layers_lies_as_its_twin_holds_it() -> None:
    y = value("y", 5, 3, 2, 2)
    relu = operation("aten.relu.default", y, self=KERNEL)
    lowered, texts = lowered_graph(relu, inputs=[X], results=(), held={KERNEL: "conv.weight"}, model=Net())
    assert texts == ["jax.nn.relu(@conv|kernel[...])"] and lowered.layouts[y].order == (2, 3, 1, 0)


def test_a_sparse_tensor_is_refused_if_it_is_read() -> None:
    options = {"inputs": [X], "results": (), "held": {SPARSE: "sparse"}, "model": Net()}
    lowered_graph(**options)
    with pytest.raises(NoPair, match=r"Net\.sparse is a sparse tensor"):
        lowered_graph(operation("aten.relu.default", value("y", 5, 5), self=SPARSE), **options)
