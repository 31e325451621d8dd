"""The result of comparing two modules in one mode."""

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
    """The result of comparing one mode.

    Attributes:
        calls: the calls of torch's layers and of Flax's.
        outputs: torch's and Flax's outputs, each in its own layout.
        findings: the differences.
        partings: where the two sides first diverge.
        rows: the compared layers.
        flax_layers: Flax's layers by path.
        tensors: all compared tensors, by kind.
        pairing: compares the layers.
        rounded: torch's layer that differs before the one in ``partings``, by float32's rounding, and by how much.
        zeros: what differs only by rounding, as the control shows: it is zero in exact arithmetic.
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
            what: the finding's kind, if it is one.
            mode: "evaluation" or "training".
            where: the tensor's name in the report.
            tensor: the compared tensor.
            why: what is known about the difference.

        Returns:
            the difference; 0 if the control shows that it is only rounding.
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
            limits: the largest allowed differences.
            steps: forward passes before the buffers were compared.
        """
        rows = []
        for what in (what for what in ORDER if what in self.tensors):
            limit = limits.gradient if what in ("backward", "input gradient") else limits.forward
            when = f"after {steps} steps of training" if what == "buffers" else f"in {mode}"
            rows.append(row_of(f"{WORDS[what]} {when}", self.tensors[what], limit))
        return rows
