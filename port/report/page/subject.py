"""What the page has to say of one comparison, whether its run came to its end or broke off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from port.judging import Compared
from port.records import Record, Verdict
from port.training import Outcome, Remains


@dataclass(frozen=True)
class Subject:
    """One comparison, as the page's parts take it.

    Attributes:
        name: what it is called: "float64", "float32" or "scripts".
        sides: the two records, PyTorch's first; None where a side left none.
        labels: what the two are called.
        controls: the controls' records.
        verdict: None where there is no step that both have.
        weights: the final tensor that differs most.
        broken: how the run broke off, a sentence for each side that did.
    """

    name: str
    sides: tuple[Record | None, Record | None]
    labels: tuple[str, str]
    controls: tuple[Record, ...]
    verdict: Verdict | None
    weights: Compared | None
    broken: tuple[str, ...]

    @property
    def records(self) -> Iterator[tuple[str, Record]]:
        """The records that there are, with what they are called."""
        return ((label, side) for label, side in zip(self.labels, self.sides, strict=True) if side is not None)

    @property
    def precision(self) -> str:
        """What the records were judged as, or say of themselves."""
        if self.verdict is not None:
            return self.verdict.precision
        return next((record.precision for _, record in self.records if record.precision), "float32")


def subject_of(comparison: Outcome | Remains) -> Subject:
    """What the page's parts take."""
    sides = comparison.torch, comparison.jax
    labels = _labels(sides)
    missing = comparison.missing if isinstance(comparison, Remains) else {}
    broken = [
        _broken_off(record, label, missing.get(side))
        for side, label, record in zip(("torch", "jax"), labels, sides, strict=True)
    ]
    return Subject(
        name=comparison.name,
        sides=sides,
        labels=labels,
        controls=comparison.controls,
        verdict=comparison.verdict,
        weights=comparison.weights if isinstance(comparison, Outcome) else None,
        broken=tuple(sentence for sentence in broken if sentence is not None),
    )


def _labels(sides: tuple[Record | None, Record | None]) -> tuple[str, str]:
    """The sides' names; where both are of one side, or from one script, what their paths differ in."""
    a, b = (side if side is None else side.name for side in sides)
    if a != b or sides[0] is None or sides[1] is None:
        return a or "torch", b or "jax"
    if sides[0].path.stem != sides[1].path.stem:
        return sides[0].path.stem, sides[1].path.stem
    if sides[0].path != sides[1].path:
        return str(sides[0].path), str(sides[1].path)
    return f"{a}, once", f"{b}, again"


def _broken_off(record: Record | None, label: str, missing: str | None) -> str | None:
    if record is None:
        return f"there is no record of {label} ({missing})" if missing else f"there is no record of {label}"
    if record.finished or not record.about:  # a record without a first line never says that it ended
        return None
    total = record.about.get("total_steps")
    of = f" of {total}" if isinstance(total, int) else ""
    return f"{label}'s record breaks off after step {max(record.steps)}{of}"
