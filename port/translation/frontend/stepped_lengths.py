"""Lengths that the module's Python code loops over, found by counting its operators at another length."""

from __future__ import annotations

from collections.abc import Sequence

from port.translation.frontend.free_lengths import FreeLength, several_sizes
from port.translation.frontend.resized_inputs import Sizes
from port.translation.frontend.trials import Trials

_SHORT = ((6, 7, 9), (7, 9, 6), (9, 6, 8), (5, 9, 7))
"""Sizes to capture loops at: long enough to show a loop, and different for each length, so that they can be told apart.

A row is one length's size in each of the three captures.
"""


def short_sizes(trials: Trials, lengths: Sequence[FreeLength]) -> list[Sizes] | None:
    """Return three sets of short lengths that the original accepts, or any three; None where there are none."""
    if len(lengths) <= len(_SHORT):
        chosen = list(zip(lengths, _SHORT, strict=False))
        found = [{axis: at[number] for length, at in chosen for axis in length.axes} for number in range(3)]
        if all(map(trials.runs, found)):
            return found
    return several_sizes(trials, lengths)


def looped_lengths(trials: Trials, free: Sequence[FreeLength]) -> list[FreeLength]:
    """Return the free lengths that the module's own code loops over: its number of operator calls depends on them.

    Args:
        trials: runs of the original; operators inside layers kept whole do not count.
        free: the lengths that can vary.
    """
    steps = trials.steps({}) if free else None
    if steps is None:
        return []
    most = max(steps.values(), default=0)
    found = []
    for length in free:
        if most < length.size - 1:
            continue  # no operator is called that often
        others = trials.steps(length.at(length.other))
        if others is not None and others.total() != steps.total():
            found.append(length)
    return found
