"""The evaluation loss of a script: the mean over examples of training's loss, of the model in the mode that it has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch


class Evaluated:
    """What one evaluation has given so far.

    The script's own numbers may be anything (a sum, an accuracy, a mean over batches). What both sides have is the
    loss that is trained; it is computed here as often as the script evaluates, on its batches, when it calls its model.

    Args:
        module: from a batch to its loss.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._waiting: Sequence[torch.Tensor] | None = None
        self._total, self._count = 0.0, 0
        self._device = next(module.parameters()).device

    def wait(self, inputs: Sequence[torch.Tensor]) -> None:
        """The script has a batch of its evaluation, and has not called its model yet."""
        self._waiting = [one.to(self._device) for one in inputs]

    def take(self) -> None:
        """It calls its model now: so the model is in the mode in which it evaluates it."""
        if self._waiting is not None:
            inputs, self._waiting = self._waiting, None
            with torch.no_grad(), _unchanged(self._module):
                loss = float(self._module(*inputs))
            self._total += loss * len(inputs[0])
            self._count += len(inputs[0])

    def end(self) -> float | None:
        """The mean, and nothing is known any more; None where no batch was evaluated."""
        mean = self._total / self._count if self._count else None
        self._total, self._count, self._waiting = 0.0, 0, None
        return mean


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
