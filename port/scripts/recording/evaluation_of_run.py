"""Accumulate one evaluation of the original: the script's own numbers, the training loss, or both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from port.scripts.recording.evaluated import Evaluated, NumbersOfScript


class EvaluationOfRun:
    """One evaluation of the original, batch by batch.

    Attributes:
        loss: the training loss; None if one of the script's numbers is a loss, and before training begins.
        numbers: the script's numbers; None if none of them is used.

    Args:
        numbers: as in `WatchedOriginal`.
        parts: returns the loss's inputs for a batch.
    """

    def __init__(self, numbers: Sequence[Mapping[str, Any]], parts: Callable[[Any], Sequence[torch.Tensor]]) -> None:
        self.loss: Evaluated | None = None
        self.numbers = NumbersOfScript(numbers) if numbers else None
        self._parts = parts

    @property
    def is_kept(self) -> bool:
        """Whether anything of the evaluation is kept."""
        return self.loss is not None or self.numbers is not None

    @property
    def is_whole(self) -> bool:
        """Whether its pass is over, and all values of its batches were seen."""
        kept = [one for one in (self.loss, self.numbers) if one is not None]
        return bool(kept) and all(one.is_whole for one in kept)

    def wait(self, batch: Any) -> None:
        """Take a batch with which the script has not called its model yet."""
        if self.loss is not None:
            self.loss.wait(self._parts(batch))
        if self.numbers is not None:
            self.numbers.begin()

    def pass_ended(self) -> None:
        """Record that there are no more batches."""
        for one in (self.loss, self.numbers):
            if one is not None:
                one.pass_ended()

    def end(self) -> dict[str, float] | None:
        """Return the record's entry and reset; None if no batch was evaluated."""
        numbers = self.numbers.end() if self.numbers is not None else None
        loss = self.loss.end() if self.loss is not None else None
        found = {**(numbers or {}), **({"loss": loss} if loss is not None else {})}
        return found if "loss" in found else None
