"""The report of checking two modules."""

from __future__ import annotations

from dataclasses import dataclass

from port.judging import Compared, Status
from port.parity.compare.distance import Incomparable
from port.parity.compare.findings import ORDER, WORDS, Finding, LayerRow, Parting, What
from port.parity.diagnose.causes.cause import Cause

SHOWN = 8
"""The most findings and layers of each kind in a printed report."""


@dataclass(frozen=True)
class CheckReport:
    """The result of `port.check`; truthy if the two modules agree.

    Attributes:
        status: agree, differ, or cannot be judged.
        findings: all differences, sorted: weights, outputs, running statistics, gradients, gradients of inputs.
        partings: where they first diverge, forward and backward, in each mode that differs.
        layers: each mode's layers in the order in which torch finished them.
        hints: what to look at.
        remarks: what was done, and what was not compared.
        rows: what was compared: the largest difference of each kind in each mode, and how many tensors.
        precision: the precision in which both sides ran.
        unjudged: what cannot be judged, and why.
        causes: changes, found by trying, that make the two agree where they diverge.
    """

    status: Status
    findings: tuple[Finding, ...]
    partings: tuple[Parting, ...]
    layers: dict[str, tuple[LayerRow, ...]]
    hints: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    rows: tuple[Compared, ...] = ()
    precision: str = "float64"
    unjudged: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()

    def __bool__(self) -> bool:
        return self.agree

    @property
    def agree(self) -> bool:
        """Whether everything was compared and nothing differs."""
        return self.status is Status.AGREE

    @property
    def first(self) -> Parting | None:
        """The first divergence: forward before backward, evaluation before training."""
        return self.partings[0] if self.partings else None

    @property
    def compared(self) -> dict[str, int]:
        """The number of compared tensors of each kind, over all modes."""
        counts: dict[str, int] = {}
        for row in self.rows:
            kind = row.what.partition(" in ")[0].partition(" after ")[0]
            counts[kind] = counts.get(kind, 0) + row.count
        return counts

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        if self.agree:
            counts = ", ".join(f"{count} {kind}" for kind, count in self.compared.items())
            return f"The two models agree in {self.precision}: {counts}."
        if self.status is Status.CANNOT_JUDGE:
            return f"Whether the two models agree cannot be judged in {self.precision}: {self.unjudged[0]}."
        kinds = [what for what in ORDER if any(finding.what == what for finding in self.findings)]
        said = ", ".join(WORDS[kind] for kind in kinds)
        where = f" They part first at {self.first.layer}." if self.first and self.first.layer else ""
        return f"The two models differ in {self.precision}: {said}.{where}"

    def __str__(self) -> str:
        lines = [self.sentence]
        lines += [f"  {parting.why}" for parting in self.partings]
        lines += [f"  cause: {cause}" for cause in self.causes]
        lines += [line for what in ORDER for line in self._listed(what)]
        lines += [f"  {row}" for row in self.rows if row.count and row.status is not Status.DIFFER]
        if self.first is not None:
            lines += _table(self.first, self.layers.get(self.first.mode, ()))
        lines += [f"  cannot be judged: {why}" for why in self.unjudged[self.status is Status.CANNOT_JUDGE :]]
        lines += [f"  look at: {hint}" for hint in self.hints]
        lines += [f"  note: {remark}" for remark in self.remarks]
        return "\n".join(lines)

    def _listed(self, what: What) -> list[str]:
        found = [finding for finding in self.findings if finding.what == what]
        modes = {finding.mode for finding in self.findings if finding.what == "forward"}
        follow = self.first is None or self.first.direction == "forward"
        if follow and what not in ("weights", "forward") and found and {finding.mode for finding in found} <= modes:
            return [f"  {what}: {len(found)} differ too, as they must where the outputs do"]
        lines = [f"  {finding}" for finding in found[:SHOWN]]
        return lines if len(found) <= SHOWN else [*lines, f"  … and {len(found) - SHOWN} more of {what}"]


def _table(parting: Parting, rows: tuple[LayerRow, ...]) -> list[str]:
    """The layers around the first that differs."""
    places = [place for place, row in enumerate(rows) if row.layer.partition(" (call ")[0] == parting.layer]
    if not places:
        return []
    start = max(0, places[0] - 3)
    chosen = rows[start : start + SHOWN]
    head = ("layer", "Flax", "class", "input", "output", "alone", "arriving", "gradient", "alone")
    body = [
        (
            row.layer,
            row.path,
            row.flax.rpartition(".")[2],
            *map(_cell, (row.input, row.output, row.alone, row.arriving, row.gradient, row.alone_backward)),
        )
        for row in chosen
    ]
    widths = [max(len(line[column]) for line in (head, *body)) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in (head, *body)]
    return [f"  {parting.mode}, relative differences of each layer:", *(f"    {line}".rstrip() for line in lines)]


def _cell(value: float | None) -> str:
    if value is None:
        return "–"
    return value.short if isinstance(value, Incomparable) else f"{value:.0e}"
