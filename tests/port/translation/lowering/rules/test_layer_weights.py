"""``F.linear`` with a layer's weights calls the layer; with others it is a product."""

from __future__ import annotations

import pytest
from torch import nn

from port.translation.ir.function_calls import FunctionEnter, FunctionExit
from port.translation.ir.graph import Value
from port.translation.ir.layout import Layout

from ...ir.graphs import operation, value
from ..by_hand import lowered_graph


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.plain = nn.Linear(3, 5), nn.Linear(3, 5, bias=False)
        self.table = nn.Embedding(5, 3)


X, Y = value("x", "n", 3), value("y", "n", 5)
OF_FC, BIAS, OF_PLAIN, TABLE = value("w", 5, 3), value("b", 5), value("p", 5, 3), value("t", 5, 3)
HELD = {OF_FC: "fc.weight", BIAS: "fc.bias", OF_PLAIN: "plain.weight", TABLE: "table.weight"}


@pytest.mark.parametrize(
    ("weight", "bias", "text"),
    [
        (OF_FC, BIAS, "@fc|(x)"),
        (OF_PLAIN, None, "@plain|(x)"),
        (TABLE, None, "@table|.attend(x)"),
        (OF_FC, None, "x @ @fc|kernel[...]"),
        (OF_PLAIN, BIAS, "x @ @plain|kernel[...] + @fc|bias[...]"),
        (TABLE, BIAS, "x @ @table|embedding[...].T + @fc|bias[...]"),
    ],
    ids=["layer", "without bias", "table", "bias left out", "another bias", "table and bias"],
)
def test_whose_weights_they_are(weight: Value, bias: Value | None, text: str) -> None:
    linear = operation("aten.linear.default", Y, input=X, weight=weight, bias=bias)
    assert lowered_graph(linear, inputs=[X], results=Y, held=HELD, model=Net())[1] == [text]


def test_a_function_that_is_given_the_weights_calls_no_layer() -> None:
    linear = operation("aten.linear.default", Y, input=X, weight=OF_FC, bias=BIAS)
    options = {"inputs": [X], "results": Y, "held": HELD, "model": Net()}
    for given, text in (
        ({"x": X, "weight": OF_FC, "bias": BIAS}, "x @ @fc|kernel[...] + @fc|bias[...]"),
        ({"x": X}, "@fc|(x)"),
    ):
        begins, ends = FunctionEnter(print, 0, given), FunctionExit(print, 0, Y)
        assert lowered_graph(begins, linear, ends, **options)[1] == [text]


def test_a_layer_takes_its_rows_in_any_order() -> None:
    rows, result = value("rows", 2, 4, 3), value("result", 2, 4, 5)
    linear = operation("aten.linear.default", result, input=rows, weight=OF_FC, bias=BIAS)
    options = {"inputs": [rows], "held": HELD, "model": Net(), "results": result}
    lowered, texts = lowered_graph(linear, chosen={"rows": Layout((1, 0, 2))}, **options)
    assert texts[0] == "@fc|(rows)" and lowered.layouts[result].order == (1, 0, 2)
