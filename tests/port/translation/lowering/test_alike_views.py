"""Views in several instances of a class have a grouping that holds for all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from port.translation.ir.graph import Graph, Operation, Step, Value
from port.translation.ir.module_calls import ScopeEnter, ScopeExit
from port.translation.ir.reshape_axes import AxisGroup
from port.translation.ir.source_location import SourceLocation
from port.translation.lowering.alike_views import AlikeViews
from port.translation.verify.proving import prove
from tests.port.translation.agreeing import translated
from tests.port.translation.window_nets import Cut, Joined, Windows

LINE = SourceLocation("net.py", 3)
Shape = tuple[int, ...]


def _graph(*calls: tuple[torch.nn.Module, Shape, Shape]) -> tuple[Graph, list[tuple[Value, Value]]]:
    """A run in which each module views an array otherwise, all by the same line."""
    steps: list[Step] = []
    pairs = []
    for number, (module, before, after) in enumerate(calls):
        value, view = Value(f"x{number}", before, "float32"), Value(f"v{number}", after, "float32")
        # Which of the operators it is torch decides by how the array lies.
        operator = "aten._unsafe_view.default" if number % 2 else "aten.view.default"
        steps += [
            ScopeEnter(f"layers.{number}", 0, module, {"x": value}),
            Operation(operator, {"self": value, "size": list(after)}, (view,), False, LINE),
            ScopeExit(f"layers.{number}", 0, view),
        ]
        pairs.append((value, view))
    return Graph((), {}, {}, tuple(steps)), pairs


def _groups(*calls: tuple[torch.nn.Module, Shape, Shape]) -> list[list[AxisGroup] | None]:
    graph, pairs = _graph(*calls)
    views = AlikeViews(graph)
    return [views.groups(*pair) for pair in pairs]


MANY = ((2, 8, 5), (2, 4, 2, 5))
ONE = ((2, 2, 5), (2, 1, 2, 5))
CUT = [AxisGroup((0,), (0,)), AxisGroup((1,), (1, 2)), AxisGroup((2,), (3,))]


def test_an_axis_of_length_1_is_grouped_as_where_it_is_longer() -> None:
    cut = Cut()
    assert _groups((cut, *MANY), (cut, *ONE)) == [CUT, CUT]
    alone = [AxisGroup((0,), (0,)), AxisGroup((), (1,)), AxisGroup((1,), (2,)), AxisGroup((2,), (3,))]
    assert _groups((cut, *ONE)) == [alone]
    # Another class does something else.
    assert _groups((cut, *MANY), (Joined(), *ONE)) == [CUT, alone]


def test_lengths_that_are_equal_by_chance_are_no_axes_that_stay() -> None:
    """Six that become two by three, and two that become two by one: of both only the product is left."""
    cut = Cut()
    split, chance = ((6, 4), (2, 3, 4)), ((2, 3), (2, 1, 3))
    assert _groups((cut, *split), (cut, *chance)) == 2 * [
        [AxisGroup((0,), (0, 1)), AxisGroup((1,), (2,))],
    ]
    assert _groups((cut, *chance))[0] == [AxisGroup((0,), (0,)), AxisGroup((), (1,)), AxisGroup((1,), (2,))]


def test_where_no_grouping_holds_for_all_each_has_its_own() -> None:
    cut = Cut()
    several = ((6, 4), (6, 2, 2)), ((6, 4), (3, 2, 4))
    assert _groups(*((cut, *each) for each in several)) == [_groups((cut, *each))[0] for each in several]


def test_what_has_another_rank_is_grouped_by_itself() -> None:
    cut = Cut()
    flat = ((2, 2, 5), (4, 5))
    assert _groups((cut, *MANY), (cut, *flat)) == [CUT, [AxisGroup((0, 1), (0,)), AxisGroup((2,), (1,))]]


@pytest.mark.sweep
def test_a_stage_of_one_window_has_the_classes_of_the_others() -> None:
    torch.manual_seed(0)
    module, x = Windows(5, 2, 4, 2), torch.randn(2, 3, 4, 4)
    made = translated(module, x, construct=lambda: Windows(5, 2, 4, 2), static=True, sizes_limit=0.0)
    assert made.elsewhere is not None and made.elsewhere.keeps_constructors
    assert "x = x.reshape(B, H // p, p, W // p, p, C)" in made.source
    assert made.source.count("class Cut") == made.source.count("class Joined") == made.source.count("class With") == 1
    assert "rate in np.linspace(0.0, drop, depth).tolist()" in made.source
    # A window of every other row and column: seen where there are several.
    planted = made.source.replace("jnp.swapaxes(x, 2, 3)", "jnp.swapaxes(x, 2, 4)", 1)
    assert planted != made.source
    assert not prove(module, replace(made, source=planted), (x,), {}).agrees
