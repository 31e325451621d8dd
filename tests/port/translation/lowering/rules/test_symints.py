"""Arithmetic of symbolic lengths is emitted as a formula where it is used."""

from __future__ import annotations

from port.translation.ir.graph import Operation, Value

from ...ir.graphs import operation, value
from ..by_hand import lowered_graph


def test_nothing_is_written_for_it() -> None:
    x, y = value("x", "n", 3), value("y", "2*n", 3)
    length, twice = Value("length", None, "size", "n"), Value("twice", None, "size", "2*n")
    size = Operation("aten.sym_size.int", {"self": x, "dim": 0}, (length,), several=False, place=None)
    product = Operation("mul", {"0": length, "1": 2}, (twice,), several=False, place=None)
    ones = operation("aten.full.default", y, size=[twice, 3], fill_value=1.5, dtype=None)
    lowered, texts = lowered_graph(size, product, ones, inputs=[x], results=y)
    assert texts == ["jnp.full((twice, 3), 1.5)"]
    assert lowered.values["twice"].length == "2*n"
