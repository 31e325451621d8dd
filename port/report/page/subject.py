"""One comparison as the page shows it, whether its run finished or stopped early."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from port.judging import Compared
from port.records import Record, Verdict
from port.training import Outcome, Remains


@dataclass(frozen=True)
class Subject:
    """One comparison, as the page's parts use it.

    Attributes:
        name: its name: "float64", "float32" or "scripts".
        sides: the two records, PyTorch's first; None if a side left none.
        labels: the names of the two sides.
        controls: the controls' records.
        verdict: None if the sides have no step in common.
        weights: the final tensor that differs most.
        broken: how the run stopped early, a sentence for each side that did.
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
        """Yield the records that exist, with their labels."""
        return ((label, side) for label, side in zip(self.labels, self.sides, strict=True) if side is not None)

    @property
    def precision(self) -> str:
        """The precision that the records were judged in, or state themselves."""
        if self.verdict is not None:
            return self.verdict.precision
        return next((record.precision for _, record in self.records if record.precision), "float32")


def subject_of(comparison: Outcome | Remains) -> Subject:
    """Return a comparison in the form the page's parts use."""
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
    """Return the sides' labels; for two of one framework, or from one script, the differing parts of their paths."""
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
    if record.finished or not record.about:  # a record without a first line cannot say that it finished
        return None
    total = record.about.get("total_steps")
    of = f" of {total}" if isinstance(total, int) else ""
    return f"{label}'s record breaks off after step {max(record.steps)}{of}"
