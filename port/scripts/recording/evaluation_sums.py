"""Sum an evaluation's numbers over its batches, for both sides' records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class EvaluationSums:
    """The sum of each number.

    Attributes:
        count: how many values were added.

    Args:
        numbers: as in `WatchedOriginal`.
    """

    def __init__(self, numbers: Sequence[Mapping[str, Any]]) -> None:
        self._numbers = numbers
        self._totals = [0.0] * len(numbers)
        self.count = 0
        self._loss, self._examples = 0.0, 0

    def add(self, place: int, value: Any) -> None:
        """Add one number of a batch."""
        self._totals[place] += float(value)
        self.count += 1

    def add_loss(self, value: float, examples: int) -> None:
        """Add the mean loss of a batch, if none of the numbers is a loss."""
        self._loss += value * examples
        self._examples += examples

    def said(self) -> dict[str, float] | None:
        """The record's entry; None if there were no batches.

        ``loss`` is the judged number's mean over the batches, or the losses' mean over their examples.
        """
        batches = self.count // len(self._numbers)
        if not batches:
            return None
        sums = zip(self._numbers, self._totals, strict=True)
        found = {str(one["name"]): total / batches for one, total in sums if not one["judged"]}
        if self._examples:
            return {**found, "loss": self._loss / self._examples}
        judged = [total for one, total in zip(self._numbers, self._totals, strict=True) if one["judged"]]
        return {**found, "loss": judged[0] / batches} if judged else found
