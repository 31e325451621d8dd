"""Find arrays whose layout differs from that in other calls of the same class, function or method."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from port.translation.ir.function_calls import FunctionEnter
from port.translation.ir.graph import Value, each_step, each_value
from port.translation.ir.module_calls import FORWARD, ScopeEnter, ScopeExit
from port.translation.lowering.trial import Ask, Trial


def unlike(trial: Trial, *, either: bool = False) -> list[Ask]:
    """Return the arguments whose layout differs from the most common one in calls of the class or function.

    Args:
        trial: a dry run.
        either: on a tie, whether to try each of the most common layouts, rather than one of them.

    Returns:
        The arguments, each with the most common layout.
    """
    calls: Calls = defaultdict(list)
    for step in each_step(trial.graph.steps):
        if isinstance(step, ScopeEnter | FunctionEnter):
            called = (type(step.module), step.method) if isinstance(step, ScopeEnter) else step.function
            for name, argument in step.arguments.items():
                if isinstance(argument, Value) and argument in trial.layouts:
                    calls[called, name, argument.rank].append(argument)
    return [ask for arrays in calls.values() for asks in _in_other_orders(arrays, trial, either) for ask in asks]


def unlike_results(trial: Trial, *, either: bool = False) -> list[list[Ask]]:
    """Return the results of methods other than ``forward`` whose layout differs from the most common one.

    Args:
        trial: a dry run.
        either: see `unlike`.

    Returns:
        For each method and each candidate layout, the results that would have to change.
    """
    classes: dict[str, type] = {}
    calls: Calls = defaultdict(list)
    for step in each_step(trial.graph.steps):
        if isinstance(step, ScopeEnter):
            classes[step.key] = type(step.module)
        elif isinstance(step, ScopeExit) and step.method != FORWARD:
            for place, result in enumerate(each_value(step.results)):
                if result in trial.layouts:
                    calls[(classes[step.key], step.method), str(place), result.rank].append(result)
    return [asks for arrays in calls.values() for asks in _in_other_orders(arrays, trial, either)]


Calls = defaultdict[tuple[Any, str, int], list[Value]]
"""The callee, an argument's name or a result's index, and a rank → the arrays there, over all calls."""


def _in_other_orders(arrays: list[Value], trial: Trial, either: bool) -> Iterator[list[Ask]]:
    """Yield, for each of the most common layouts, the arrays that have another, with that layout."""
    layouts = [replace(trial.layout(array), folded=None) for array in arrays]
    (_, most), *others = common = Counter(reversed(layouts)).most_common()
    if others:
        pairs = list(zip(arrays, layouts, strict=True))
        for usual, count in common if either else common[:1]:
            if count == most:
                yield list(dict.fromkeys((array, usual) for array, layout in pairs if layout != usual))
