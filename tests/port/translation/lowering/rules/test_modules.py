"""Layer calls: each input is brought to the layout that the twin needs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from port.translation.ir.graph import LayerCall
from port.translation.ir.layout import Folded, Layout
from port.translation.ir.lowered import Assignment

from ...ir.graphs import HERE
from ..by_hand import lowered_graph, value_of


@pytest.mark.parametrize(
    ("layer", "shape", "order", "after", "transposes"),
    [
        (nn.Conv2d(3, 4, 1), (2, 3, 5, 6), (0, 2, 3, 1), (0, 2, 3, 1), 0),
        (nn.Conv2d(3, 4, 1), (2, 3, 5, 6), (0, 1, 2, 3), (0, 2, 3, 1), 1),
        (nn.BatchNorm2d(3), (2, 3, 5, 6), (1, 0, 2, 3), (0, 2, 3, 1), 1),
        (nn.Linear(6, 4), (2, 3, 5, 6), (1, 0, 2, 3), (1, 0, 2, 3), 0),
        (nn.Linear(6, 4), (2, 3, 5, 6), (0, 2, 3, 1), (0, 2, 1, 3), 1),
        (nn.LayerNorm(6), (2, 3, 6), (1, 0, 2), (1, 0, 2), 0),
        (nn.ReLU(), (2, 3, 6), (2, 0, 1), (2, 0, 1), 0),
        (nn.Softmax(1), (2, 3, 6), (2, 0, 1), (2, 0, 1), 0),
        (nn.Identity(), (2, 3, 6), (2, 0, 1), (2, 0, 1), 0),
    ],
    ids=lambda case: type(case).__name__ if isinstance(case, nn.Module) else "",
)
def test_an_input_is_brought_to_what_the_twin_takes(
    layer: nn.Module, shape: tuple[int, ...], order: tuple[int, ...], after: tuple[int, ...], transposes: int
) -> None:
    tensor = torch.randn(shape)
    x, y = value_of("x", tensor), value_of("y", layer(tensor))
    call = LayerCall("layer", layer, (x,), {}, y, HERE)
    model = nn.ModuleDict({"layer": layer})
    lowered, _ = lowered_graph(call, inputs=[x], results=(), model=model, chosen={"x": Layout(order)})
    assert lowered.layouts[y].order == after
    assert sum(step.is_transpose for step in lowered.steps if isinstance(step, Assignment)) == transposes


def test_the_axis_of_a_softmax_is_the_arrays() -> None:
    tensor, layer = torch.randn(2, 3, 6), nn.Softmax(1)
    x, y = value_of("x", tensor), value_of("y", layer(tensor))
    call = LayerCall("layer", layer, (x,), {}, y, HERE)
    options = {"inputs": [x], "results": y, "model": nn.ModuleDict({"layer": layer})}
    assert lowered_graph(call, chosen={"x": Layout((0, 2, 1))}, **options)[1][0] == "jax.nn.softmax(x, axis=-1)"


def test_a_linear_layer_takes_a_flattened_image_as_it_lies() -> None:
    linear = nn.Linear(3 * 4 * 5, 2)
    flat = value_of("flat", torch.randn(2, 60))
    y = value_of("y", torch.randn(2, 2))
    folded = Folded(1, (3, 4, 5), (1, 2, 0))
    call = LayerCall("linear", linear, (flat,), {}, y, HERE)
    options = {"inputs": [flat], "results": y, "model": nn.ModuleDict({"linear": linear})}
    lowered, texts = lowered_graph(call, chosen={"flat": Layout((0, 1), folded)}, **options)
    assert lowered.folds == {"linear": folded} and texts == ["@linear|(flat)"]
