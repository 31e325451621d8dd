"""In-place draws into empty memory: no memory is allocated; its shape and dtype are used."""

from __future__ import annotations

from port.translation.ir.graph import Operation
from port.translation.ir.layout import Layout

from ...ir.graphs import operation, value
from ..by_hand import lowered_graph

MADE, DRAWN = value("made", "n", 3), value("drawn", "n", 3)


def _uniform() -> Operation:
    return operation("aten.uniform.default", DRAWN, self=MADE, **{"from": -1.0, "to": 2.0, "generator": None})


def test_of_a_size() -> None:
    x = value("x", "n")
    empty = operation("aten.empty.memory_format", MADE, size=[5, 3], dtype=None, memory_format=None)
    lowered, texts = lowered_graph(empty, _uniform(), inputs=[x], results=DRAWN)
    assert texts[-1] == "jax.random.uniform(@|rngs(), (5, 3), jnp.float32, -1.0, 2.0)"
    assert lowered.draws == (Layout((0, 1)),)


def test_of_another_tensors_size_and_order() -> None:
    x = value("x", "n", 3)
    empty = operation("aten.empty_like.default", MADE, self=x, dtype=None, memory_format=None)
    lowered, texts = lowered_graph(empty, _uniform(), inputs=[x], results=DRAWN, chosen={"x": Layout((1, 0))})
    assert "jax.random.uniform(@|rngs(), x.shape, jnp.float32, -1.0, 2.0)" in texts
    assert lowered.draws == (Layout((1, 0)),)


def test_what_holds_numbers_is_read() -> None:
    x = value("x", "n", 3)
    draw = operation("aten.uniform.default", DRAWN, self=x, **{"from": 0.0, "to": 1.0, "generator": None})
    _, texts = lowered_graph(draw, inputs=[x], results=DRAWN)
    assert texts == ["jax.random.uniform(@|rngs(), x.shape, x.dtype, 0.0, 1.0)"]
