"""Operators with data-dependent shapes are refused, with advice."""

from __future__ import annotations

import pytest

from port.translation.lowering.rules import unsupported

from ...ir.graphs import operation, value
from ..by_hand import lowered_graph

X, Y = value("x", 3, 4), value("y", "u0")


@pytest.mark.parametrize("name", unsupported.RULES)
def test_each_says_why(name: str) -> None:
    lowered, _ = lowered_graph(operation(f"{name}.default", Y, self=X), inputs=[X], results=Y)
    (missing,) = lowered.unwritten
    assert missing.what == name and "which a traced JAX program cannot know; " in missing.why


def test_what_nobody_reads_is_not_missed() -> None:
    lowered, texts = lowered_graph(operation("aten.nonzero.default", Y, self=X), inputs=[X], results=X)
    assert lowered.unwritten == () and texts == []
