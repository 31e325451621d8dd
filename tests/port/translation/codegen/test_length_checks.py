"""The checks of input shapes: one line per tensor, and none if every length is free."""

from __future__ import annotations

from port.translation.codegen.length_checks import expectations
from port.translation.frontend.input_lengths import InputLengths
from port.translation.ir.graph import Graph, Value
from port.translation.ir.layout import Layout, torchs
from port.translation.ir.module_calls import ScopeEnter
from port.translation.ir.syntax import source


def lines(lengths: InputLengths, arguments: list[str], layouts: list[Layout]) -> list[str]:
    values = tuple(Value(name, shape, "float32") for name, shape in zip(arguments, lengths.shapes, strict=True))
    graph = Graph(values, {}, {}, (ScopeEnter("", 0, None, dict(zip(arguments, values, strict=True))),))
    made = expectations(graph, dict(zip(values, layouts, strict=True)), lengths, arguments)
    return list(map(source, made))


def test_one_line_a_tensor_in_the_order_of_its_axes() -> None:
    lengths = InputLengths((("n", 3, "h", "w"), ("n", 5)), ("h >= 7", "h * w > n"))
    assert lines(lengths, ["image", "label"], [Layout((0, 2, 3, 1)), torchs(2)]) == [
        "F.expect(image, 'n h w 3; h >= 7; h * w > n')",
        "F.expect(label, 'n 5', n=image.shape[0])",
    ]


def test_where_every_length_is_free_nothing_is_checked() -> None:
    assert lines(InputLengths((("n", "t"), ("m",))), ["x", "y"], [torchs(2), torchs(1)]) == []


def test_conditions_and_formulas_wait_for_their_names() -> None:
    lengths = InputLengths((("n", "t"), ("2*t", "u")), ("t <= u",))
    assert lines(lengths, ["x", "lambda"], [torchs(2), torchs(2)]) == [
        "F.expect(lambda_, 'axis0 u; axis0 == 2 * t; t <= u', t=x.shape[1])"
    ]
