"""The numbers that a script's evaluation computes for each batch, and the calls that computed each.

They leave torch (``.item()``), or are summed within it (``correct += (guess == label).sum()``).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from port.scripts.observing.graph import Computation
from port.scripts.observing.statements import is_in_loop_of

MOST_BATCHES = 2
"""How many batches' calls are kept: values that differ between two batches are not constants."""


@dataclass(frozen=True)
class TakenNumber:
    """A number that left torch, or was summed within it.

    Attributes:
        where: the script's line.
        value: the number; None if it is not a number.
        call: the number of the call that returned it; None if no call is known.
        output: which of that call's outputs it is; None for a call with one output.
        is_added: whether it is summed within torch: the line's text is the added term.
    """

    where: dict[str, Any]
    value: Any
    call: int | None
    output: str | None = None
    is_added: bool = False


@dataclass
class EvaluatedBatch:
    """One batch of an evaluation.

    Attributes:
        loader: the loader's name.
        taken: the numbers, in the script's order.
        calls: the calls that computed them, by number.
        begun: the line of the loop over the batches.
        lengths: the numbers among these calls' arguments that are lengths of tensors, as in `LossPath`.
    """

    loader: str
    taken: list[TakenNumber] = field(default_factory=list)
    calls: dict[int, Computation] = field(default_factory=dict)
    begun: dict[str, Any] | None = None
    lengths: dict[int, Mapping[int, Any]] = field(default_factory=dict)

    def has(self, where: dict[str, Any]) -> bool:
        """Whether a line runs for the batch: in its loop or in another function, but not after the loop."""
        begun = self.begun
        if begun is None or (where["file"], where["function"]) != (begun["file"], begun["function"]):
            return True
        return is_in_loop_of(begun["file"], where["line"], begun["line"])


class EvaluatedNumbers:
    """Keeps the first batches of a script's first evaluation.

    Attributes:
        batches: the batches.
        weights: the models' weights when the evaluation begins, by model.
        is_in_one: whether such a batch is being evaluated.

    Args:
        represent: returns the representation of a tensor argument.
    """

    def __init__(self, represent: Callable[[Any, Sequence[Computation]], Any]) -> None:
        self._represent = represent
        self.batches: list[EvaluatedBatch] = []
        self.weights: dict[str, dict[str, torch.Tensor]] = {}
        self.is_in_one = False

    def begin(self, loader: str, models: Mapping[str, nn.Module], where: dict[str, Any] | None = None) -> bool:
        """Begin a batch of an evaluation; returns whether to keep its calls."""
        if not self.batches:
            states = {name: model.state_dict() for name, model in models.items()}
            self.weights = {
                name: {key: value.detach().clone() for key, value in state.items() if isinstance(value, torch.Tensor)}
                for name, state in states.items()
            }
        is_another = bool(self.batches) and self.batches[0].loader != loader
        self.is_in_one = not is_another and len(self.batches) < MOST_BATCHES
        if self.is_in_one:
            self.batches.append(EvaluatedBatch(loader, begun=where))
        return self.is_in_one

    def end(self) -> None:
        """End the batch: something other than an evaluation batch follows."""
        self.is_in_one = False

    def take(
        self,
        calls: Sequence[Computation],
        description: dict[str, Any],
        value: Any,
        where: dict[str, Any] | None,
        lengths: Mapping[int, Mapping[int, Any]],
        *,
        is_added: bool = False,
    ) -> None:
        """Take in a number that the script has read from a tensor, or has added to a sum.

        Args:
            calls: the calls that computed the tensor.
            description: its description in the observation.
            value: the number; None if it is not a number.
            where: the script's line.
            lengths: the lengths among these calls' arguments.
            is_added: whether it was added to a sum.
        """
        if not self.is_in_one or where is None or not self.batches[-1].has(where):
            return
        batch = self.batches[-1]
        batch.taken.append(TakenNumber(where, value, description.get("call"), description.get("output"), is_added))
        batch.lengths |= lengths
        for call in calls:
            if call.number not in batch.calls and call.live is not None:
                kept = copy.copy(call)
                kept.live = self._represent(call.live, calls)
                batch.calls[call.number] = kept
