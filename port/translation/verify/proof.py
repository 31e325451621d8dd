"""The result of a proof, and the tolerances within which both sides count as equal."""

from __future__ import annotations

from dataclasses import dataclass

from port.judging import TENSORS, Compared, Limits, Status, worst
from port.translation.verify.explanation import NONE, Explanation


def limits_of(single: bool, mixed: bool) -> Limits:
    """The limits of a comparison.

    Args:
        single: whether both sides run in float32.
        mixed: whether the original computes a part in float32, whatever its precision.
    """
    return TENSORS["float32" if single else "mixed" if mixed else "translation"]


@dataclass(frozen=True)
class Proof:
    """What the comparison says.

    Attributes:
        rows: what was compared.
        precision: ``"float64"``; ``"float32"`` where the original does not run in float64.
        failed: the error of the Flax side, if it could not be run.
        remarks: what was not compared, or less closely, and why: a sentence each.
        lengths: the inputs' lengths at which both sides were compared, in words.
        unjudged: why nothing, or not enough, could be compared: what, and what to do; empty if it could.
        sizes: at which other sizes of the model both sides were compared, and what stays as it is; in words.
        explanation: where two sides that differ part first, and why.
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
        """Agree, differ, or cannot be judged: then ``unjudged`` or a row says why."""
        if self.failed or any(row.status is Status.DIFFER for row in self.rows):
            return Status.DIFFER
        if self.unjudged or not self.rows:
            return Status.CANNOT_JUDGE
        return worst(row.status for row in self.rows)

    @property
    def agrees(self) -> bool:
        """Whether something was compared, and all of it is within its limit."""
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
"""A proof's first words."""
