"""The evaluation loss of a script without loaders: what it finds itself, as far as it is training's loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from port.scripts.observing.described import shapes_in


class FoundByScript:
    """What one evaluation of a script without loaders has given so far: the losses that it finds itself.

    A number is one where it is computed from a model as the loss is that is trained; its batch counts by its length.

    Args:
        calls: the names of the calls from a model on to the loss that is trained.
    """

    def __init__(self, calls: Sequence[str]) -> None:
        self._calls = list(calls)
        self._total, self._count = 0.0, 0

    def see(self, number: Mapping[str, Any]) -> None:
        """The script has taken a number out of a tensor."""
        path = number["path"] if not number["grad"] and number["value"] is not None else []
        known = [call for call in path if call["name"] in self._calls]  # what is carried over has come by some before
        last = known[-len(self._calls) :]
        if path and [call["name"] for call in last] == self._calls and last[-1] is path[-1]:
            shapes = shapes_in(last[0]["arguments"])
            length = shapes[0][0] if shapes and shapes[0] else 1
            self._total += number["value"] * length
            self._count += length

    def end(self) -> float | None:
        """The mean, and nothing is known any more; None where nothing was found."""
        mean = self._total / self._count if self._count else None
        self._total, self._count = 0.0, 0
        return mean
