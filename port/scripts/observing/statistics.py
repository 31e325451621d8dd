"""Keep running statistics from before the first update's calls, which change them."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

MOST_CALLS = 64
"""The most calls in training mode, before the first backward, whose buffers are kept."""


class FirstStatistics:
    """Copies of the module's buffers before each call in training mode, until the first backward.

    Which calls belong to the first update is only known at its backward: an earlier call (a sanity check of shapes)
    changes the statistics too, and the first update starts from that result.
    """

    def __init__(self) -> None:
        self._buffers: dict[int, dict[int, torch.Tensor]] = {}  # call → a buffer's id → its value before it
        self._is_over = False

    def before_call(self, module: nn.Module, number: int) -> None:
        """Handle a module that the script is about to call, as call ``number``."""
        if not self._is_over and module.training:
            self._buffers[number] = {id(one): one.detach().clone() for one in module.buffers()}
            if len(self._buffers) > MOST_CALLS:
                del self._buffers[next(iter(self._buffers))]

    def before(self, calls: Iterable[int]) -> dict[int, torch.Tensor]:
        """A buffer's id → its value before the first of these calls, for buffers that the calls may have changed."""
        found: dict[int, torch.Tensor] = {}
        for number in sorted(calls):
            found = {**self._buffers.get(number, {}), **found}
        return found

    def end(self) -> None:
        """Stop keeping copies: the first backward has been seen."""
        self._is_over = True
        self._buffers.clear()
