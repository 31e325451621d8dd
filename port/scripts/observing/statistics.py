"""Running statistics as they were before the first update's own calls, which move them."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

MOST_CALLS = 64
"""Calls in training, before the first backward, whose buffers are kept."""


class FirstStatistics:
    """Copies of what each call in training found in its module's buffers, until the first backward.

    Which calls belong to the first update is known at its backward: a look at the model before (a sanity check of its
    shapes) moves its statistics too, and the first update begins with what that left.
    """

    def __init__(self) -> None:
        self._buffers: dict[int, dict[int, torch.Tensor]] = {}  # call → a buffer's id → its value before it
        self._is_over = False

    def before_call(self, module: nn.Module, number: int) -> None:
        """A module is about to be called by the script, as the call of this number."""
        if not self._is_over and module.training:
            self._buffers[number] = {id(one): one.detach().clone() for one in module.buffers()}
            if len(self._buffers) > MOST_CALLS:
                del self._buffers[next(iter(self._buffers))]

    def before(self, calls: Iterable[int]) -> dict[int, torch.Tensor]:
        """A buffer's id → its value before the first of these calls, for those that the calls may have changed."""
        found: dict[int, torch.Tensor] = {}
        for number in sorted(calls):
            found = {**self._buffers.get(number, {}), **found}
        return found

    def end(self) -> None:
        """The first backward has been seen: nothing is kept any more."""
        self._is_over = True
        self._buffers.clear()
