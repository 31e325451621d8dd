"""The numbers that a script's evaluation takes of each batch, and the calls by which each came about.

They leave torch (``.item()``), or are added up within it (``correct += (guess == label).sum()``).
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
"""Whose calls are kept: what differs between two of them is no constant."""


@dataclass(frozen=True)
class TakenNumber:
    """A number that has left torch, or was added up there.

    Attributes:
        where: the script's line.
        value: the number; None of what is none.
        call: the number of the call that gave it; None where no call is known.
        output: which of that call's outputs it is; None of a call with one.
        is_added: whether it is added up within torch: the line's text is what is added.
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
        loader: its name.
        taken: the numbers, in the order of the script.
        calls: by which they came about, by number.
        begun: the line of the loop over the batches.
        lengths: of these calls, the numbers among their arguments that are lengths of tensors, as a path has them.
    """

    loader: str
    taken: list[TakenNumber] = field(default_factory=list)
    calls: dict[int, Computation] = field(default_factory=dict)
    begun: dict[str, Any] | None = None
    lengths: dict[int, Mapping[int, Any]] = field(default_factory=dict)

    def has(self, where: dict[str, Any]) -> bool:
        """Whether a line is run for the batch: in its loop, or in another function, and not behind the loop."""
        begun = self.begun
        if begun is None or (where["file"], where["function"]) != (begun["file"], begun["function"]):
            return True
        return is_in_loop_of(begun["file"], where["line"], begun["line"])


class EvaluatedNumbers:
    """Keeps the first batches of a script's first evaluation.

    Attributes:
        batches: these.
        weights: of the models where it begins, by model.
        is_in_one: whether such a batch is being evaluated.

    Args:
        given: what stands for a tensor among the arguments of a call.
    """

    def __init__(self, given: Callable[[Any, Sequence[Computation]], Any]) -> None:
        self._given = given
        self.batches: list[EvaluatedBatch] = []
        self.weights: dict[str, dict[str, torch.Tensor]] = {}
        self.is_in_one = False

    def begin(self, loader: str, models: Mapping[str, nn.Module], where: dict[str, Any] | None = None) -> bool:
        """A batch of an evaluation is given; returns whether its calls are to be kept."""
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
        """Something else than an evaluation's batch has come."""
        self.is_in_one = False

    def take(
        self,
        calls: Sequence[Computation],
        told: dict[str, Any],
        value: Any,
        where: dict[str, Any] | None,
        lengths: Mapping[int, Mapping[int, Any]],
        *,
        is_added: bool = False,
    ) -> None:
        """The script has taken a number out of a tensor, or has added one up.

        Args:
            calls: by which the tensor came about.
            told: what it is, as the account says it.
            value: the number; None of what is none.
            where: the script's line.
            lengths: among the arguments of these calls.
            is_added: whether it was added up.
        """
        if not self.is_in_one or where is None or not self.batches[-1].has(where):
            return
        batch = self.batches[-1]
        batch.taken.append(TakenNumber(where, value, told.get("call"), told.get("output"), is_added))
        batch.lengths |= lengths
        for call in calls:
            if call.number not in batch.calls and call.live is not None:
                kept = copy.copy(call)
                kept.live = self._given(call.live, calls)
                batch.calls[call.number] = kept
