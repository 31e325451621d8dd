"""The result of a proof, and its tolerances."""

from __future__ import annotations

from dataclasses import dataclass

from port.judging import TENSORS, Compared, Limits, Status, worst
from port.translation.verify.explanation import NONE, Explanation


def limits_of(single: bool, mixed: bool) -> Limits:
    """Return the limits of a comparison.

    Args:
        single: whether both sides run in float32.
        mixed: whether the original computes a part in float32, whatever its precision.
    """
    return TENSORS["float32" if single else "mixed" if mixed else "translation"]


@dataclass(frozen=True)
class Proof:
    """The result of a comparison.

    Attributes:
        rows: the comparisons.
        precision: ``"float64"``; ``"float32"`` if the original does not run in float64.
        failed: the Flax side's error, if it did not run.
        remarks: what was not compared, or only loosely, and why: a sentence each.
        lengths: the inputs' lengths at which both sides were compared, as text.
        unjudged: why too little could be compared, and what to do; empty if enough was.
        sizes: the other model sizes at which both sides were compared, and what stays fixed; as text.
        explanation: where two sides that differ do so first, and why.
    """

    rows: tuple[Compared, ...]
    precision: str = "float64"
    failed: str = ""
    remarks: tuple[str, ...] = ()
    lengths: str = ""
    unjudged: str = ""
    sizes: str = ""
    explanation: Explanation = NONE

    @property
    def status(self) -> Status:
        """The verdict: agree, differ, or cannot be judged; for the last, ``unjudged`` or a row says why."""
        if self.failed or any(row.status is Status.DIFFER for row in self.rows):
            return Status.DIFFER
        if self.unjudged or not self.rows:
            return Status.CANNOT_JUDGE
        return worst(row.status for row in self.rows)

    @property
    def agrees(self) -> bool:
        """Whether something was compared and everything is within its limit."""
        return self.status is Status.AGREE

    def __str__(self) -> str:
        head = f"{self.precision}: {HEADS[self.status]}"
        at = f"compared at {self.lengths}" if self.lengths else ""
        lines = [
            head,
            self.failed,
            self.unjudged,
            *self.explanation.lines,
            *map(str, self.rows),
            *self.remarks,
            at,
            self.sizes,
        ]
        return "\n  ".join(filter(None, lines))


HEADS = {
    Status.AGREE: "both sides agree",
    Status.DIFFER: "both sides DIFFER",
    Status.CANNOT_JUDGE: "CANNOT BE JUDGED",
}
"""The first words of a proof's text."""
