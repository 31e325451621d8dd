"""Lengths that the module's Python code loops over, found by counting its operators at another length."""

from __future__ import annotations

from collections.abc import Sequence

from port.translation.frontend.free_lengths import FreeLength, several_sizes
from port.translation.frontend.resized_inputs import Sizes
from port.translation.frontend.trials import Trials

_SHORT = ((6, 7, 9), (7, 9, 6), (9, 6, 8), (5, 9, 7))
"""Lengths to capture loops at: long enough that they show. Each length has others than the next, to tell them apart."""


def short_sizes(trials: Trials, lengths: Sequence[FreeLength]) -> list[Sizes] | None:
    """Three sets of short lengths that the original takes; others that it takes where it does not take those."""
    if len(lengths) <= len(_SHORT):
        chosen = list(zip(lengths, _SHORT, strict=False))
        found = [{axis: at[number] for length, at in chosen for axis in length.axes} for number in range(3)]
        if all(map(trials.runs, found)):
            return found
    return several_sizes(trials, lengths)


def walked_lengths(trials: Trials, free: Sequence[FreeLength]) -> list[FreeLength]:
    """Those of the free lengths on which it depends how many operators the module's own code calls.

    Args:
        trials: runs of the original; what its layers kept whole call does not count.
        free: the lengths that the original takes others for.
    """
    steps = trials.steps({}) if free else None
    if steps is None:
        return []
    most = max(steps.values(), default=0)
    found = []
    for length in free:
        if most < length.size - 1:
            continue  # nothing is done as often
        others = trials.steps(length.at(length.other))
        if others is not None and others.total() != steps.total():
            found.append(length)
    return found
