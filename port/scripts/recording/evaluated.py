"""The evaluation loss of a script: the mean over examples of training's loss, of the model in the mode that it has."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from port.scripts.recording.evaluation_sums import EvaluationSums


class Evaluated:
    """What one evaluation has given so far.

    The script's own numbers may be anything (a sum, an accuracy, a mean over batches). What both sides have is the
    loss that is trained; it is computed here as often as the script evaluates, on its batches, when it calls its model.

    Args:
        module: from a batch to its loss.
        drawing: what the loss of a batch, by its number, is computed within.
    """

    def __init__(self, module: torch.nn.Module, drawing: Callable[[int], AbstractContextManager[None]]) -> None:
        self._module, self._drawing = module, drawing
        self._number = 0
        self._waiting: deque[Sequence[torch.Tensor]] = deque()  # a loader may be asked for one ahead
        self._is_over = False  # its pass has given all its batches
        self._total, self._count = 0.0, 0
        self._device = next(module.parameters()).device

    def wait(self, inputs: Sequence[torch.Tensor]) -> None:
        """The script has a batch of its evaluation, and has not called its model with it yet."""
        self._waiting.append([one.to(self._device) for one in inputs])

    def take(self) -> None:
        """It calls its model now: so the model is in the mode in which it evaluates it."""
        if self._waiting:
            inputs = self._waiting.popleft()
            with torch.no_grad(), _unchanged(self._module), self._drawing(self._number):
                loss = float(self._module(*inputs))
            self._total += loss * len(inputs[0])
            self._count += len(inputs[0])
            self._number += 1

    @property
    def is_whole(self) -> bool:
        """Whether its pass is over, and the model was called with all of its batches."""
        return self._is_over and not self._waiting

    def pass_ended(self) -> None:
        """There are no more batches."""
        self._is_over = True

    def end(self) -> float | None:
        """The mean, and nothing is known any more; None where no batch was evaluated."""
        mean = self._total / self._count if self._count else None
        self._total, self._count, self._number, self._is_over = 0.0, 0, 0, False
        self._waiting.clear()
        return mean


class NumbersOfScript:
    """What one evaluation has given so far: the numbers that the script takes out of torch for each batch.

    Args:
        numbers: as `WatchedOriginal` has them.
    """

    def __init__(self, numbers: Sequence[Mapping[str, Any]]) -> None:
        self._numbers = numbers
        self._sums = EvaluationSums(numbers)
        self._begun = 0
        self._is_over = False

    def begin(self) -> None:
        """The script has a batch."""
        self._begun += 1

    def see(self, value: Any, where: Mapping[str, Any] | None) -> None:
        """The script has taken a number out of a tensor."""
        for place, one in enumerate(self._numbers):
            if where is not None and (where["line"], where["text"]) == (one["line"], one["text"]):
                self._sums.add(place, value)

    @property
    def is_whole(self) -> bool:
        """Whether its pass is over, and the numbers of all of its batches were seen."""
        return self._is_over and self._sums.count == self._begun * len(self._numbers)

    def pass_ended(self) -> None:
        """There are no more batches."""
        self._is_over = True

    def end(self) -> dict[str, float] | None:
        """What a record says, and nothing is known any more; None where no batch was evaluated."""
        found = self._sums.said()
        self._sums, self._begun, self._is_over = EvaluationSums(self._numbers), 0, False
        return found


@contextmanager
def _unchanged(module: torch.nn.Module) -> Iterator[None]:
    """Within it a call leaves no traces: neither in running statistics nor in torch's generator."""
    before = [one.clone() for one in module.buffers()]
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        for buffer, value in zip(module.buffers(), before, strict=True):
            buffer.copy_(value)
