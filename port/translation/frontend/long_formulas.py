"""Symbolic lengths whose formulas grow from layer to layer: refused, as unreadable and slow to export."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from port.translation.frontend.resized_inputs import Axis
from port.translation.ir.symbolic_lengths import words_in

if TYPE_CHECKING:
    import torch

LONGEST = 200
"""Letters of a formula that is still looked at."""


class LongLength(Exception):
    """Lengths within the model are formulas longer than `LONGEST`.

    Attributes:
        words: the names that torch gives what the formulas are made of.
        axes: the axes of the inputs that are made of these names, when `found_in` has looked for them.
    """

    def __init__(self, formulas: Sequence[str]) -> None:
        super().__init__(f"a length is {formulas[0][:60]}…")
        self.words = frozenset(word for formula in formulas for word in words_in(formula))
        self.axes: frozenset[Axis] = frozenset()

    def found_in(self, inputs: Iterable[torch.Tensor]) -> LongLength:
        """The same with its axes, by the tensors' numbers."""
        self.axes = frozenset(
            (number, axis)
            for number, tensor in enumerate(inputs)
            for axis, size in enumerate(tensor.shape)
            if self.words & {*words_in(str(size))}
        )
        return self


def check_lengths_are_short(tensors: Iterable[torch.Tensor]) -> None:
    """Look at the shapes of tensors while torch.export traces.

    Raises:
        LongLength: a length of theirs is too long.
    """
    formulas = [str(size) for tensor in tensors for size in tensor.shape if not isinstance(size, int)]
    long = [formula for formula in formulas if len(formula) > LONGEST]
    if long:
        raise LongLength(long)
