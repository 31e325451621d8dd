"""Decide how much of a comparison to run: all of it, a smaller batch, gradients in parts or none, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from port.parity.sides.cost import Cost
from port.parity.sides.duration import overtime, seconds_one_by_one
from port.parity.sides.fitting import SMALLER, shortage, unfit
from port.parity.sides.inputs import Inputs
from port.parity.sides.parts import least_parts, said_of
from port.parity.sides.smaller_batch import batch_size, largest_batch


@dataclass(frozen=True)
class Extent:
    """The part of a comparison that fits into memory and time.

    Attributes:
        inputs: the inputs of both sides; a smaller batch if the whole one does not fit.
        seconds: the estimated time.
        parts: number of parts in which gradients are taken; 1 for all at once.
        why_parts: why there are several parts.
        without_gradients: why gradients are left out; empty if they are not.
        refused: why nothing runs; empty if something does.
        remarks: remarks for the report.
    """

    inputs: Inputs
    seconds: float
    parts: int = 1
    why_parts: str = ""
    without_gradients: str = ""
    refused: str = ""
    remarks: tuple[str, ...] = ()

    def said_of_parts(self, parts: int) -> str:
        """Say that gradients were compared in parts, and why.

        Args:
            parts: the actual number of parts: a model with few parameters has fewer than planned.
        """
        return f"{said_of(parts)}: {self.why_parts}"


@dataclass(frozen=True)
class Budget:
    """The limits of a comparison.

    Attributes:
        steps: forward passes in training before buffers are compared.
        time_limit: seconds.
    """

    steps: int
    time_limit: float

    def extent(self, inputs: Inputs, cost_of: Callable[[Inputs], Cost], *, may_shrink: bool) -> Extent:
        """Return as much of a comparison as fits: all of it, else a smaller batch, else gradients in parts, else none.

        Args:
            inputs: torch's inputs.
            cost_of: returns the cost of torch's forward pass.
            may_shrink: whether the batch may change; a loss or separate Flax inputs may depend on it.
        """
        remarks: tuple[str, ...] = ()
        cost = cost_of(inputs)
        if self.beyond(cost, gradients=True) and may_shrink:
            fewer = largest_batch(inputs, cost_of, lambda cost: not self.beyond(cost, gradients=True))
            if fewer is not None:
                batches = f"a batch of {fewer.size} in place of {batch_size(inputs)}"
                remarks = (f"compared with {batches}: {self._excess(cost)}",)
                inputs, cost = fewer.inputs, fewer.cost
        why = self.beyond(cost, gradients=True)
        if not why:
            return Extent(inputs, self._seconds(cost), remarks=remarks)
        parts = least_parts(lambda parts: not self.beyond(cost, gradients=True, parts=parts))
        if parts:
            return Extent(inputs, self._seconds(cost, parts=parts), parts, why, remarks=remarks)
        refused = why if self.beyond(cost, gradients=False) else ""
        return Extent(inputs, self._seconds(cost, gradients=False), without_gradients=why, refused=refused)

    def beyond(self, cost: Cost, *, gradients: bool, parts: int = 1) -> str:
        """Return why a comparison does not run, and what to do; empty if it runs.

        Args:
            cost: the cost of torch's forward pass.
            gradients: whether there are backward passes.
            parts: number of parts in which the parameters' gradients are taken.
        """
        if why := unfit(cost, gradients=gradients, parts=parts):
            return why
        long = overtime(self._seconds(cost, gradients=gradients, parts=parts), self.time_limit)
        of = "with gradients " if gradients else ""
        what = f"use {SMALLER}, check a part alone, or set a longer --time-limit"
        return f"the comparison {of}was left out ({long}): {what}" if long else ""

    def _excess(self, cost: Cost) -> str:
        """Say what a comparison with gradients would take, and what is available."""
        if unfit(cost, gradients=True):
            return shortage(cost, gradients=True)
        return overtime(self._seconds(cost), self.time_limit)

    def _seconds(self, cost: Cost, *, gradients: bool = True, parts: int = 1) -> float:
        return seconds_one_by_one(cost, steps=self.steps, gradients=gradients, parts=parts)
