"""Loops become scans: a carry keeps one layout, and sliced arrays have the loop's axis first."""

from __future__ import annotations

import pytest
from torch import nn

from port.translation.ir.graph import Carried, Graph, Loop, Sliced, Stacked
from port.translation.ir.layout import Layout
from port.translation.ir.layout_decisions import Layouts
from port.translation.ir.lowered import LoweredGraph, Scan
from port.translation.ir.module_calls import ScopeEnter, ScopeExit
from port.translation.lowering.lower_graph import lower_graph

from ...ir.graphs import HERE, operation, value
from ..by_hand import written

WHOLE, FIRST = value("whole", 4, 7, 5), value("first", 4, 5)
INSIDE, CARRIED, NEXT = value("x_t", 4, 5), value("s", 4, 5), value("s_t", 4, 5)
LAST, SUMS = value("last", 4, 5), value("sums", 4, 5, 7)


def scanned(**orders: tuple[int, ...]) -> tuple[Scan, LoweredGraph]:
    """The sum of the slices along the second axis, all partial sums along the last; inputs in these orders."""
    loop = Loop(
        length=7,
        reverse=False,
        stateful=False,
        carried=(Carried(FIRST, CARRIED, NEXT, LAST),),
        sliced=(Sliced(WHOLE, 1, INSIDE),),
        stacked=(Stacked(NEXT, 2, SUMS),),
        steps=(operation("aten.add.Tensor", NEXT, self=CARRIED, other=INSIDE, alpha=1),),
        place=HERE,
    )
    steps = (ScopeEnter("", 0, nn.Identity(), {}), loop, ScopeExit("", 0, (LAST, SUMS)))
    chosen = {name: Layout(order) for name, order in orders.items()}
    lowered = lower_graph(Graph((WHOLE, FIRST), {}, {}, steps), nn.Identity(), Layouts(chosen), training=False)
    return next(step for step in lowered.steps if isinstance(step, Scan)), lowered


def test_what_is_sliced_has_its_axis_in_front() -> None:
    scan, lowered = scanned()
    assert [written(each) for each in scan.whole] == ["jnp.swapaxes(whole, 0, 1)"]
    assert written(scan.next[0]) == "s_t" and scan.length is None
    assert lowered.layouts[SUMS].order == (0, 1, 2)
    assert [written(step.expression) for step in scan.steps] == ["s + x_t"]


def test_an_array_that_has_it_in_front_is_taken_as_it_lies() -> None:
    scan, lowered = scanned(whole=(1, 0, 2))
    assert [written(each) for each in scan.whole] == ["whole"]
    assert lowered.layouts[INSIDE].order == (0, 1)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_is_carried_keeps_its_layout(order: tuple[int, ...]) -> None:
    scan, lowered = scanned(s=order)
    assert {lowered.layouts[each].order for each in (CARRIED, LAST)} == {order}
    expression = "first" if order == (0, 1) else "first_0t"
    assert written(scan.first[0]) == expression
