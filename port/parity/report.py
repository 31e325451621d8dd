"""What checking two modules says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from port.judging import Status
from port.parity.causes.cause import Cause
from port.parity.distance import Incomparable

What = Literal["weights", "forward", "buffers", "backward", "input gradient"]
ORDER: tuple[What, ...] = ("weights", "forward", "buffers", "backward", "input gradient")
SHOWN = 8
"""How many findings and layers a printed report has of each kind."""


@dataclass(frozen=True)
class Finding:
    """One thing that differs.

    Attributes:
        what: weights, the outputs, running statistics, gradients of parameters, of inputs.
        where: torch's key and Flax's path, or the output's name.
        difference: relative; infinity for what cannot be compared.
        limit: what it may be.
        why: what is known of it.
        mode: "evaluation" or "training"; "" for what has no mode.
    """

    what: What
    where: str
    difference: float
    limit: float
    why: str = ""
    mode: str = ""

    def __str__(self) -> str:
        kind = f"{self.what}, {self.mode}" if self.mode else self.what
        size = "" if self.difference == float("inf") else f" by {self.difference:.1e} (limit {self.limit:.0e})"
        return f"{kind}: {self.where} differs{size}" + (f": {self.why}" if self.why else "")


@dataclass(frozen=True)
class LayerRow:
    """One call of one layer, compared. Differences are relative; None is not compared.

    Attributes:
        layer: torch's path, and which call.
        path: Flax's path.
        torch: torch's class.
        flax: Flax's class.
        input: of what the layer was given.
        output: of what it gave.
        alone: of its output when Flax's layer is given torch's input.
        arriving: of the gradient that arrived at its output.
        gradient: of its parameters' gradients.
        alone_backward: of the gradients when Flax's layer is given torch's input and torch's arriving gradient.
        reordered: its input has the same numbers in another order.
        notes: ids of the differences that the pair speaks of.
    """

    layer: str
    path: str
    torch: str
    flax: str
    input: float | None = None
    output: float | None = None
    alone: float | None = None
    arriving: float | None = None
    gradient: float | None = None
    alone_backward: float | None = None
    reordered: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Parting:
    """Where the two sides part first, in one mode and one direction.

    Attributes:
        direction: "forward" or "backward".
        mode: "evaluation" or "training".
        layer: torch's path of the first layer that differs; "" where all compared layers agree.
        path: Flax's.
        torch: torch's class of it.
        flax: Flax's.
        itself: whether the layer itself is at fault, rather than what is before it (behind it, going backward); None
            where that cannot be told.
        why: the same in a sentence.
        notes: ids of the differences that the pair speaks of.
    """

    direction: Literal["forward", "backward"]
    mode: str
    layer: str
    path: str
    torch: str
    flax: str
    itself: bool | None
    why: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckReport:
    """What `port.check` found; true where the two modules agree.

    Attributes:
        status: agree, differ, or cannot be judged.
        findings: all that differs, sorted: weights, outputs, running statistics, gradients, gradients of inputs.
        partings: where they part first, forward and backward, in each mode that differs.
        layers: each mode's layers in the order in which torch finished them.
        hints: what to look at.
        remarks: what was done, and what was not compared.
        compared: how many tensors of each kind.
        precision: in which both sides ran.
        unjudged: what cannot be judged, and why.
        causes: what makes the two agree where they part, found by trying.
    """

    status: Status
    findings: tuple[Finding, ...]
    partings: tuple[Parting, ...]
    layers: dict[str, tuple[LayerRow, ...]]
    hints: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    compared: dict[str, int] = field(default_factory=dict)
    precision: str = "float64"
    unjudged: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()

    def __bool__(self) -> bool:
        return self.agree

    @property
    def agree(self) -> bool:
        """Whether all was compared and nothing differs."""
        return self.status is Status.AGREE

    @property
    def first(self) -> Parting | None:
        """Where they part first: forward before backward, evaluation before training."""
        return self.partings[0] if self.partings else None

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        if self.agree:
            counts = ", ".join(f"{count} {kind}" for kind, count in self.compared.items() if count)
            return f"The two models agree in {self.precision}: {counts}."
        if self.status is Status.CANNOT_JUDGE:
            return f"Whether the two models agree cannot be judged in {self.precision}: {self.unjudged[0]}."
        kinds = [what for what in ORDER if any(finding.what == what for finding in self.findings)]
        words = {"forward": "outputs", "backward": "gradients", "input gradient": "gradients of the inputs"}
        said = ", ".join(words.get(kind, kind) for kind in kinds)
        where = f" They part first at {self.first.layer}." if self.first and self.first.layer else ""
        return f"The two models differ in {self.precision}: {said}.{where}"

    def __str__(self) -> str:
        lines = [self.sentence]
        lines += [f"  {parting.why}" for parting in self.partings]
        lines += [f"  cause: {cause}" for cause in self.causes]
        lines += [line for what in ORDER for line in self._listed(what)]
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
