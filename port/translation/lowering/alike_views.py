"""Group the axes of a view alike in all instances of a class, and in all calls of a function.

A length of 1, or two lengths that are equal by chance, allow another grouping in one instance: with a single window,
``x.reshape(B, H // p, p, W // p, p, C)`` leaves the height unchanged. Since all instances share one source, a grouping
that holds for all of them is preferred.
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
"""The shape of the viewed tensor, and that of the view."""


class AlikeViews:
    """Groups the axes of views.

    Args:
        graph: the graph that contains the views.
    """

    def __init__(self, graph: Graph) -> None:
        self._alike: dict[Value, list[Shapes]] = {}
        self._known: dict[tuple[Shapes, ...], list[AxisGroup] | None] = {}
        found: dict[Any, dict[Value, Shapes]] = defaultdict(dict)
        _collect(graph.steps, None, found)
        for views in found.values():
            self._alike |= {key: list(dict.fromkeys(views.values())) for key in views}

    def groups(self, value: Value, view: Value) -> list[AxisGroup] | None:
        """Return the smallest groups of axes, from the left; None if symbolic lengths leave them open.

        Args:
            value: the viewed tensor.
            view: the view.
        """
        own = (value.shape or ()), (view.shape or ())
        alike = [shapes for shapes in self._alike.get(view, ()) if tuple(map(len, shapes)) == tuple(map(len, own))]
        key = (own, *alike)
        if key not in self._known:
            self._known[key] = _common(alike) or groups(*own)
        return self._known[key]


def _common(alike: list[Shapes]) -> list[AxisGroup] | None:
    """Return the smallest groups that hold for views of several shapes; None if there are none."""
    candidates = [groups(*shapes) for shapes in alike] if len(alike) > 1 else []
    common = [found for found in candidates if found and all(holds(found, *shapes) for shapes in alike)]
    return max(common, key=len, default=None)


def _collect(steps: Iterable[Step], around: Any, found: dict[Any, dict[Value, Shapes]]) -> None:
    """Collect possible views, keyed by the line of code and the enclosing class or function."""
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
                _collect(step.steps, inside[-1], found)
            case Operation(arguments=arguments, results=(view,)) if view.shape is not None and _is_view(step):
                where = inside[-1], step.place
                calls[-1][where] += 1
                value = next((each for each in each_value(arguments) if each.shape is not None), None)
                if value is not None and value.shape is not None:
                    found[*where, calls[-1][where]][view] = value.shape, view.shape


def _is_view(step: Operation) -> bool:
    """Whether an operator is a view or a reshape; torch chooses between them by the tensor's strides."""
    return meaning_of(step.operator.rpartition(".")[0]) in ("aten.view", "aten.reshape")
