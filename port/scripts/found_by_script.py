"""The evaluation loss of a script without loaders: numbers that it computes as it computes the training loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from port.scripts.observing.described import shapes_in


class FoundByScript:
    """Accumulates the losses that one evaluation of a script without loaders computes itself.

    A number counts as a loss if it is computed from a model by the same calls as the training loss; each batch is
    weighted by its length.

    Args:
        calls: the names of the calls from a model to the training loss.
    """

    def __init__(self, calls: Sequence[str]) -> None:
        self._calls = list(calls)
        self._total, self._count = 0.0, 0

    def see(self, number: Mapping[str, Any]) -> None:
        """Take in a number that the script has read from a tensor."""
        path = number["path"] if not number["grad"] and number["value"] is not None else []
        known = [call for call in path if call["name"] in self._calls]  # a running sum has passed some calls before
        last = known[-len(self._calls) :]
        if path and [call["name"] for call in last] == self._calls and last[-1] is path[-1]:
            shapes = shapes_in(last[0]["arguments"])
            length = shapes[0][0] if shapes and shapes[0] else 1
            self._total += number["value"] * length
            self._count += length

    def end(self) -> float | None:
        """Return the mean and reset; None if no loss was seen."""
        mean = self._total / self._count if self._count else None
        self._total, self._count = 0.0, 0
        return mean
