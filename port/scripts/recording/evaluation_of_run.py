"""What one evaluation of the original has given so far: the script's own numbers, the loss that is trained, or both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from port.scripts.recording.evaluated import Evaluated, NumbersOfScript


class EvaluationOfRun:
    """It, batch by batch.

    Attributes:
        loss: the loss that is trained; None where one of the script's numbers is a loss, and before training begins.
        numbers: the script's; None where none of them is taken over.

    Args:
        numbers: as `WatchedOriginal` has them.
        parts: gives the inputs of the loss, of a batch.
    """

    def __init__(self, numbers: Sequence[Mapping[str, Any]], parts: Callable[[Any], Sequence[torch.Tensor]]) -> None:
        self.loss: Evaluated | None = None
        self.numbers = NumbersOfScript(numbers) if numbers else None
        self._parts = parts

    @property
    def is_kept(self) -> bool:
        """Whether anything of it is."""
        return self.loss is not None or self.numbers is not None

    @property
    def is_whole(self) -> bool:
        """Whether its pass is over, and everything of its batches was seen."""
        kept = [one for one in (self.loss, self.numbers) if one is not None]
        return bool(kept) and all(one.is_whole for one in kept)

    def wait(self, batch: Any) -> None:
        """The script has a batch, and has not called its model with it yet."""
        if self.loss is not None:
            self.loss.wait(self._parts(batch))
        if self.numbers is not None:
            self.numbers.begin()

    def pass_ended(self) -> None:
        """There are no more batches."""
        for one in (self.loss, self.numbers):
            if one is not None:
                one.pass_ended()

    def end(self) -> dict[str, float] | None:
        """What a record says, and nothing is known any more; None where no batch was evaluated."""
        numbers = self.numbers.end() if self.numbers is not None else None
        loss = self.loss.end() if self.loss is not None else None
        found = {**(numbers or {}), **({"loss": loss} if loss is not None else {})}
        return found if "loss" in found else None
