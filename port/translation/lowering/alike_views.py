"""Views in several instances of a class, or in several calls of a function: their axes are grouped alike.

Where a length is 1 in one instance, or two are equal by chance, its axes alone can be grouped otherwise:
``x.reshape(B, H // p, p, W // p, p, C)`` of one window leaves the height as it is. The code is the same, and so is the
grouping that holds for all of them, if there is one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from port.pairs.ops.aliases import meaning_of
from port.translation.ir.function_calls import FunctionEnter, FunctionExit
from port.translation.ir.graph import Graph, Loop, Operation, Size, Step, Value, each_value
from port.translation.ir.module_calls import ScopeEnter, ScopeExit
from port.translation.ir.reshape_axes import AxisGroup, groups, holds

Shapes = tuple[tuple[Size, ...], tuple[Size, ...]]
"""Of what is viewed, and of the view."""


class AlikeViews:
    """Groups the axes of views.

    Args:
        graph: in which they are.
    """

    def __init__(self, graph: Graph) -> None:
        self._alike: dict[Value, list[Shapes]] = {}
        self._known: dict[tuple[Shapes, ...], list[AxisGroup] | None] = {}
        found: dict[Any, dict[Value, Shapes]] = defaultdict(dict)
        _take(graph.steps, None, found)
        for views in found.values():
            self._alike |= {key: list(dict.fromkeys(views.values())) for key in views}

    def groups(self, value: Value, view: Value) -> list[AxisGroup] | None:
        """The smallest groups of axes, from the left; None where symbols hide them.

        Args:
            value: that is viewed.
            view: of it.
        """
        own = (value.shape or ()), (view.shape or ())
        alike = [shapes for shapes in self._alike.get(view, ()) if tuple(map(len, shapes)) == tuple(map(len, own))]
        key = (own, *alike)
        if key not in self._known:
            self._known[key] = _common(alike) or groups(*own)
        return self._known[key]


def _common(alike: list[Shapes]) -> list[AxisGroup] | None:
    """The smallest groups that hold for several views of other shapes; None where there are none."""
    candidates = [groups(*shapes) for shapes in alike] if len(alike) > 1 else []
    common = [found for found in candidates if found and all(holds(found, *shapes) for shapes in alike)]
    return max(common, key=len, default=None)


def _take(steps: Iterable[Step], around: Any, found: dict[Any, dict[Value, Shapes]]) -> None:
    """Note down what may be views, by the code that they stand in."""
    inside, calls = [around], [Counter[Any]()]
    for step in steps:
        match step:
            case ScopeEnter():
                inside.append((type(step.module), step.method))
                calls.append(Counter())
            case FunctionEnter():
                inside.append(step.function)
                calls.append(Counter())
            case ScopeExit() | FunctionExit():
                inside.pop()
                calls.pop()
            case Loop():
                _take(step.steps, inside[-1], found)
            case Operation(arguments=arguments, results=(view,)) if view.shape is not None and _is_view(step):
                where = inside[-1], step.place
                calls[-1][where] += 1
                value = next((each for each in each_value(arguments) if each.shape is not None), None)
                if value is not None and value.shape is not None:
                    found[*where, calls[-1][where]][view] = value.shape, view.shape


def _is_view(step: Operation) -> bool:
    """Whether an operator is a view; which of them it is depends on how an array lies in torch."""
    return meaning_of(step.operator.rpartition(".")[0]) in ("aten.view", "aten.reshape")
