"""Numbers of an evaluation, summed over its batches, as both sides' records have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class EvaluationSums:
    """The sum of each number.

    Attributes:
        count: how many were added.

    Args:
        numbers: as `WatchedOriginal` has them.
    """

    def __init__(self, numbers: Sequence[Mapping[str, Any]]) -> None:
        self._numbers = numbers
        self._totals = [0.0] * len(numbers)
        self.count = 0

    def add(self, place: int, value: Any) -> None:
        """One number of a batch."""
        self._totals[place] += float(value)
        self.count += 1

    def said(self) -> dict[str, float] | None:
        """What a record says: ``loss`` is the judged number's mean over the batches; None where there were none."""
        batches = self.count // len(self._numbers)
        if not batches:
            return None
        sums = zip(self._numbers, self._totals, strict=True)
        found = {str(one["name"]): total / batches for one, total in sums if not one["judged"]}
        (judged,) = [total for one, total in zip(self._numbers, self._totals, strict=True) if one["judged"]]
        return {**found, "loss": judged / batches}
