"""The result of making the same updates on both sides: they train the same, or not, or that cannot be judged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from port.judging import Status
from port.judging.limits import CONTROL_FACTOR, PROOF_LIMIT, WEIGHTS_LIMIT
from port.records.limits import control_limits


@dataclass(frozen=True)
class Strayed:
    """How far the original strays from itself when its initial weights are perturbed in float64's last digits.

    Attributes:
        losses: the relative difference of each update's loss.
        weights: the largest relative difference of a parameter or a running statistic after the last update.
    """

    losses: tuple[float, ...]
    weights: float


@dataclass(frozen=True)
class StepProof:
    """The result of comparing both sides.

    Attributes:
        losses: PyTorch's and JAX's loss of each update.
        weights: the largest relative difference of a parameter, or of a running statistic, after the last update.
        unshared: why the two sides cannot share the model's random numbers, so that nothing can be said; empty if they
            share them, or if it draws none.
        shared: whether it draws random numbers that both sides share.
        parts: each loss of each update, if an update has several; ``losses`` are then their sums.
        controls: if the two sides diverge, how far the original strays from itself.
    """

    losses: tuple[tuple[float, float], ...]
    weights: float
    unshared: str = ""
    shared: bool = False
    parts: tuple[tuple[float, float], ...] = ()
    controls: tuple[Strayed, ...] = ()

    @property
    def loss(self) -> float:
        """The largest relative difference of a loss."""
        return max(apart((*self.losses, *self.parts)))

    @property
    def judged_until(self) -> int | None:
        """The last update that can be judged; None if all can, or if the difference does not come from rounding."""
        differences = apart(self.losses)
        if not self.controls or differences[0] > PROOF_LIMIT:
            return None
        limits = control_limits([list(one.losses) for one in self.controls], PROOF_LIMIT)
        furthest = max(WEIGHTS_LIMIT, CONTROL_FACTOR * max(one.weights for one in self.controls))
        if self.weights > furthest or any(value > limit for value, limit in zip(differences, limits, strict=True)):
            return None
        return next((n - 1 for n, value in enumerate(differences) if value > PROOF_LIMIT), len(differences) - 1)

    @property
    def status(self) -> Status:
        """Whether both train the same."""
        if self.unshared:
            return Status.CANNOT_JUDGE
        if self.loss <= PROOF_LIMIT and self.weights <= WEIGHTS_LIMIT:
            return Status.AGREE
        return Status.DIFFER if self.judged_until is None else Status.CANNOT_JUDGE

    @property
    def why(self) -> str:
        """Why they cannot be judged; empty if they can."""
        if self.unshared:
            return f"the model draws random numbers that the two sides do not share: {self.unshared}"
        if self.status is not Status.CANNOT_JUDGE:
            return ""
        strayed = max(max(one.losses) for one in self.controls)
        return (
            f"they agree up to update {self.judged_until}, and from there on training amplifies rounding: the losses "
            f"are {self.loss:.1e} apart and the weights {self.weights:.1e}, but the original strays from itself by "
            f"{strayed:.1e} and {max(one.weights for one in self.controls):.1e} when its initial weights are perturbed "
            "in float64's last digits"
        )

    def as_data(self) -> dict[str, Any]:
        """The proof as JSON data."""
        return {
            "losses": self.losses,
            "loss": self.loss,
            "weights": self.weights,
            "draws": "with the same random draws" if self.shared else "without dropout",
            "why": self.why,
            "status": str(self.status),
        }


def apart(pairs: Sequence[tuple[float, float]]) -> list[float]:
    """The relative difference of each pair; infinite if a value is not finite."""
    found = (abs(a - b) / max(abs(a), 1e-300) for a, b in pairs)
    return [one if math.isfinite(one) else math.inf for one in found]
