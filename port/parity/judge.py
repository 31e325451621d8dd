"""What becomes of a tensor that differs: a finding, rounding alone, or something that cannot be judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from port.judging import Limits
from port.parity.calls import Arrays, Call
from port.parity.control import Control
from port.parity.distance import difference, gap, why_of
from port.parity.layers import LayerPairing
from port.parity.report import Finding, LayerRow, Parting, What

Pair = tuple[np.ndarray, np.ndarray]


@dataclass
class ModeResult:
    """What comparing one mode found.

    Attributes:
        findings: what differs.
        partings: where the two sides part first.
        rows: the layers.
        calls: of torch's layers and of Flax's.
        flax_layers: Flax's layers by path.
        compared: how many tensors of each kind.
        pairing: what compares the layers.
        outputs: torch's and Flax's, each in its own layout.
        rounded: torch's layer that differs before the one in ``partings``, by float32's rounding, and by how much.
        zeros: what differs by rounding alone, as the control shows: it is zero in exact arithmetic.
        unjudged: what cannot be judged, and why.
    """

    findings: list[Finding] = field(default_factory=list)
    partings: list[Parting] = field(default_factory=list)
    rows: list[LayerRow] = field(default_factory=list)
    calls: tuple[list[Call], list[Call]] = field(default_factory=lambda: ([], []))
    flax_layers: dict[str, Any] = field(default_factory=dict)
    compared: dict[str, int] = field(default_factory=dict)
    pairing: LayerPairing | None = None
    outputs: tuple[Arrays, Arrays] = field(default_factory=lambda: ({}, {}))
    rounded: tuple[str, float] | None = None
    zeros: list[str] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Judge:
    """Writes down what differs by more than its limit and by more than rounding.

    Attributes:
        control: of torch's run.
        limits: what a difference may be.
        mode: "evaluation" or "training".
        result: where it is written.
    """

    control: Control
    limits: Limits
    mode: str
    result: ModeResult

    def outputs(self, torch: Arrays, flax: Arrays) -> None:
        """Every output, by torch's names, in torch's layout."""
        for name, array in torch.items():
            other = flax[name]
            apart = difference(array, other)
            shapes = f"torch gives shape {array.shape}, Flax {other.shape}"
            why = why_of(apart) if array.shape == other.shape else shapes
            self.of("forward", "outputs", name or "the output", name, (array, other), apart, why)

    def of(
        self,
        what: What,
        kind: str,
        where: str,
        name: str,
        pair: tuple[np.ndarray, np.ndarray],
        apart: float,
        why: str = "",
    ) -> float:
        """One tensor.

        Args:
            what: of the finding, if it is one.
            kind: as the control has it.
            where: the tensor, for people.
            name: as the control has it.
            pair: torch's and Flax's, in one layout.
            apart: their relative difference.
            why: what is known of it.

        Returns:
            the difference; 0 of what is no finding by the control.
        """
        limit = self.limits.gradient if "gradient" in kind else self.limits.forward
        if not apart > limit or not gap(*pair) > self.limits.absolute:
            return apart
        judged = self.control.judge(kind, name, pair[1], limit)
        if judged.is_rounding:
            self.result.zeros.append(where)
            return 0.0
        if judged.why:
            self.result.unjudged.append(f"{what}, {self.mode}: {judged.why}")
            return 0.0
        self.result.findings.append(Finding(what, where, apart, limit, why, self.mode))
        return apart
