"""Graphs as text."""

from __future__ import annotations

import torch
from torch import nn

from port.translation.both_modes import both_runs
from port.translation.ir.graph import LayerCall, Operation
from port.translation.ir.module_calls import ScopeEnter, ScopeExit
from port.translation.ir.number import KnownNumber
from port.translation.ir.origin import AttributeOf, LiteralAt, WorkedOut
from port.translation.ir.printer import print_graph, print_lowered
from port.translation.lowering.layout_assignment import analyse
from port.translation.lowering.lower_graph import lower_graph

from .graphs import HERE, H, W, X, Y, looped, operation, straight


def test_a_graph_is_a_line_an_operation() -> None:
    lines = [" ".join(line.split()) for line in print_graph(straight()).splitlines()]
    assert lines == [
        "inputs %x: float32[n, 3]",
        "held %w: float32[5, 3] = weight",
        "enter the model (Linear): x=%x # net.py:3",
        "%h: float32[n, 5] = aten.linear.default(input=%x, weight=%w) # net.py:3",
        "%y: float32[n, 5] = aten.relu.default(self=%h) # net.py:3",
        "leave the model → %y",
        "guard n >= 2",
    ]


def test_scopes_and_loops_are_indented() -> None:
    lines = print_graph(looped()).splitlines()
    assert "  %last: float32[n, 5], %sums: float32[7, n, 5] = loop of 7:" in lines[3]
    assert [len(line) - len(line.lstrip()) for line in lines[3:]] == [2, 4, 4, 4, 4, 0]
    assert lines[4].strip() == "carried %s: float32[n, 5] from %zero, then %s_t"
    assert lines[7].strip() == "stacked %s_t to %sums along 0"


def test_a_lowered_graph_has_expressions_and_layouts() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.conv(x).relu()

    runs = both_runs(Net(), torch.randn(2, 3, 5, 6), None, free=()).runs
    text = " ".join(print_lowered(runs[False]).split())
    assert "float64[2, 4, 3, 4] as (0, 2, 3, 1) = jax.nn.relu(" in text
    assert "float64[4, 3, 3, 3] as (2, 3, 1, 0) = conv.weight" in text


def test_what_is_unsupported_is_a_line() -> None:
    linear = operation("aten.linear.default", H, input=X, weight=W, bias=None)
    graph = straight(linear, operation("mine.unheard.default", Y, x=H))
    lowered = lower_graph(graph, nn.Linear(3, 5), analyse({False: graph}, nn.Linear(3, 5)), training=False)
    assert any(line.startswith("unsupported mine.unheard") for line in print_lowered(lowered).splitlines())


def test_numbers_stand_beside_their_origins() -> None:
    here = AttributeOf("", "heads")
    numbers = {
        ("size", 1): KnownNumber(3, here),
        ("size", 2): KnownNumber(5, WorkedOut("//", (here, LiteralAt(4, HERE, 9)))),
    }
    view = Operation("aten.view.default", {"self": X, "size": [-1, 3, 5]}, (Y,), False, HERE, numbers=numbers)
    assert "size=[-1, 3@self.heads, 5@(self.heads // 3:9)])" in print_graph(straight(view))
    inner = ScopeEnter("block", 0, nn.Identity(), {"x": X, "scale": 3}, HERE, {("scale",): KnownNumber(3, here)})
    text = print_graph(straight(inner, view, ScopeExit("block", 0, Y)))
    assert "enter block (Identity): x=%x, scale=3@self.heads" in text
    assert "size=[-1, 3@(the model.heads), " in text  # within the block, self is another
    layer = LayerCall("block", nn.Identity(), (X, 3), {"causal": True}, Y, HERE, numbers={(1,): KnownNumber(3, here)})
    assert "call Identity block(%x, 3@self.heads, causal=True)" in print_graph(straight(layer))
