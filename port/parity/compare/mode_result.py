"""What comparing two modules in one mode found."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from port.judging import Compared, Limits, Status
from port.parity.compare.findings import ORDER, WORDS, Finding, LayerRow, Parting, What
from port.parity.compare.judge import ComparedTensor, row_of
from port.parity.compare.layers import LayerPairing
from port.parity.sides.calls import Arrays, RecordedCall


@dataclass
class ModeResult:
    """What comparing one mode found.

    Attributes:
        calls: of torch's layers and of Flax's.
        outputs: torch's and Flax's, each in its own layout.
        findings: what differs.
        partings: where the two sides part first.
        rows: the layers.
        flax_layers: Flax's layers by path.
        tensors: all that were compared, by kind.
        pairing: what compares the layers.
        rounded: torch's layer that differs before the one in ``partings``, by float32's rounding, and by how much.
        zeros: what differs by rounding alone, as the control shows: it is zero in exact arithmetic.
        unjudged: what cannot be judged, and why.
        no_gradient: why torch has no gradients; empty if it has.
        remarks: what was not compared.
    """

    calls: tuple[list[RecordedCall], list[RecordedCall]] = field(default_factory=lambda: ([], []))
    outputs: tuple[Arrays, Arrays] = field(default_factory=lambda: ({}, {}))
    findings: list[Finding] = field(default_factory=list)
    partings: list[Parting] = field(default_factory=list)
    rows: list[LayerRow] = field(default_factory=list)
    flax_layers: dict[str, Any] = field(default_factory=dict)
    tensors: dict[What, list[ComparedTensor]] = field(default_factory=dict)
    pairing: LayerPairing | None = None
    rounded: tuple[str, float] | None = None
    zeros: list[str] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    no_gradient: str = ""
    remarks: list[str] = field(default_factory=list)

    def add(self, what: What, mode: str, where: str, tensor: ComparedTensor, why: str = "") -> float:
        """Take in one compared tensor.

        Args:
            what: of the finding, if it is one.
            mode: "evaluation" or "training".
            where: the tensor, for people.
            tensor: compared.
            why: what is known of the difference.

        Returns:
            the difference; 0 of what is no finding by the control.
        """
        self.tensors.setdefault(what, []).append(replace(tensor, name=where))
        match tensor.status:
            case Status.CANNOT_JUDGE:
                self.unjudged.append(f"{what}, {mode}: {tensor.unjudged}")
                return 0.0
            case Status.DIFFER:
                self.findings.append(Finding(what, where, tensor.difference, tensor.limit, why, mode))
        if tensor.is_rounding:
            self.zeros.append(where)
            return 0.0
        return tensor.difference

    def compared(self, mode: str, limits: Limits, steps: int) -> list[Compared]:
        """A row for all tensors of each kind.

        Args:
            mode: "evaluation" or "training".
            limits: what a difference may be.
            steps: forward passes before the buffers were compared.
        """
        rows = []
        for what in (what for what in ORDER if what in self.tensors):
            limit = limits.gradient if what in ("backward", "input gradient") else limits.forward
            when = f"after {steps} steps of training" if what == "buffers" else f"in {mode}"
            rows.append(row_of(f"{WORDS[what]} {when}", self.tensors[what], limit))
        return rows
