"""The evaluation loss of a script: the mean over examples of the training loss, in the model's current mode."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from port.scripts.recording.evaluation_sums import EvaluationSums


class Evaluated:
    """Accumulates the loss of one evaluation.

    The script's own numbers may be anything (a sum, an accuracy, a mean over batches). Both sides have the training
    loss in common, so it is computed here for each evaluation batch, when the script calls its model.

    Args:
        module: computes the loss of a batch.
        drawing: the context in which the loss of batch ``number`` is computed.
    """

    def __init__(self, module: torch.nn.Module, drawing: Callable[[int], AbstractContextManager[None]]) -> None:
        self._module, self._drawing = module, drawing
        self._number = 0
        self._waiting: deque[Sequence[torch.Tensor]] = deque()  # a script may prefetch a batch
        self._is_over = False  # its pass has no more batches
        self._total, self._count = 0.0, 0
        self._device = next(module.parameters()).device

    def wait(self, inputs: Sequence[torch.Tensor]) -> None:
        """Take a batch of the evaluation with which the script has not called its model yet."""
        self._waiting.append([one.to(self._device) for one in inputs])

    def take(self) -> None:
        """Compute the waiting batch's loss: the script calls its model now, so the model is in evaluation's mode."""
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
        """Record that there are no more batches."""
        self._is_over = True

    def end(self) -> float | None:
        """Return the mean and reset; None if no batch was evaluated."""
        mean = self._total / self._count if self._count else None
        self._total, self._count, self._number, self._is_over = 0.0, 0, 0, False
        self._waiting.clear()
        return mean


class NumbersOfScript:
    """Accumulates, for one evaluation, the numbers that the script takes out of torch for each batch.

    Args:
        numbers: as in `WatchedOriginal`.
    """

    def __init__(self, numbers: Sequence[Mapping[str, Any]]) -> None:
        self._numbers = numbers
        self._sums = EvaluationSums(numbers)
        self._begun = 0
        self._is_over = False

    def begin(self) -> None:
        """Begin a batch."""
        self._begun += 1

    def see(self, value: Any, where: Mapping[str, Any] | None) -> None:
        """Take in a number that the script has read from a tensor."""
        for place, one in enumerate(self._numbers):
            if where is not None and (where["line"], where["text"]) == (one["line"], one["text"]):
                self._sums.add(place, value)

    @property
    def is_whole(self) -> bool:
        """Whether its pass is over, and the numbers of all of its batches were seen."""
        return self._is_over and self._sums.count == self._begun * len(self._numbers)

    def pass_ended(self) -> None:
        """Record that there are no more batches."""
        self._is_over = True

    def end(self) -> dict[str, float] | None:
        """Return the record's entry and reset; None if no batch was evaluated."""
        found = self._sums.said()
        self._sums, self._begun, self._is_over = EvaluationSums(self._numbers), 0, False
        return found


@contextmanager
def _unchanged(module: torch.nn.Module) -> Iterator[None]:
    """Within this context a call changes neither running statistics nor torch's generator."""
    before = [one.clone() for one in module.buffers()]
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        for buffer, value in zip(module.buffers(), before, strict=True):
            buffer.copy_(value)
