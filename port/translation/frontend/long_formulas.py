"""Refuse symbolic lengths whose formulas grow from layer to layer: unreadable, and slow to export."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from port.translation.frontend.resized_inputs import Axis
from port.translation.ir.symbolic_lengths import words_in

if TYPE_CHECKING:
    import torch

LONGEST = 200
"""The longest formula, in characters, that is accepted."""


class LongLength(Exception):
    """Raised when lengths within the model are formulas longer than `LONGEST`.

    Attributes:
        words: torch's names for the symbols in the formulas.
        axes: the axes of the inputs that contain these symbols, once `found_in` has been called.
    """

    def __init__(self, formulas: Sequence[str]) -> None:
        super().__init__(f"a length is {formulas[0][:60]}…")
        self.words = frozenset(word for formula in formulas for word in words_in(formula))
        self.axes: frozenset[Axis] = frozenset()

    def found_in(self, inputs: Iterable[torch.Tensor]) -> LongLength:
        """Set and return this error with the axes of the inputs that contain its symbols."""
        self.axes = frozenset(
            (number, axis)
            for number, tensor in enumerate(inputs)
            for axis, size in enumerate(tensor.shape)
            if self.words & {*words_in(str(size))}
        )
        return self


def check_lengths_are_short(tensors: Iterable[torch.Tensor]) -> None:
    """Check the shapes of tensors while torch.export traces.

    Raises:
        LongLength: the formula of a length is too long.
    """
    formulas = [str(size) for tensor in tensors for size in tensor.shape if not isinstance(size, int)]
    long = [formula for formula in formulas if len(formula) > LONGEST]
    if long:
        raise LongLength(long)
