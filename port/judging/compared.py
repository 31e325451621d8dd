"""One row of a comparison: the largest difference of one kind of thing, its limit, and how many were compared."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from port.judging.status import Status


@dataclass(frozen=True)
class Compared:
    """A row of a comparison's result: tensors of one kind in one mode, or a run's losses.

    Attributes:
        what: what was compared, as "gradients in training" or "training loss".
        difference: the largest relative difference; NaN if there is no number to compare.
        limit: the largest difference allowed; NaN if nothing judges it.
        where: the tensor, or the step, with the largest difference.
        count: how many were compared.
        rounded: how many of them exceed their limit by rounding alone, as the original's own control shows; they
            are not in ``difference``.
        unjudged: why one cannot be judged; empty if all can.
        of: the unit that is counted, in the singular.
    """

    what: str
    difference: float
    limit: float
    where: str
    count: int
    rounded: int = 0
    unjudged: str = ""
    of: str = "tensor"

    @property
    def status(self) -> Status:
        """Agree, differ, or cannot be judged."""
        if math.isnan(self.limit):
            return Status.CANNOT_JUDGE
        if not self.difference <= self.limit:
            return Status.DIFFER
        return Status.CANNOT_JUDGE if self.unjudged else Status.AGREE

    @property
    def agrees(self) -> bool:
        return self.status is Status.AGREE

    def joined(self, other: Compared) -> Compared:
        """Merge two rows of the same kind."""
        worst = self if self.difference >= other.difference else other
        return replace(
            worst,
            count=self.count + other.count,
            rounded=self.rounded + other.rounded,
            unjudged=self.unjudged or other.unjudged,
        )

    def __str__(self) -> str:
        differs = self.status is Status.DIFFER
        where = f" at {self.where}" if differs and self.where else ""
        rounded = f", {self.rounded} of them zero but for rounding" if self.rounded else ""
        counted = f"({self.count} {self.of}{'' if self.count == 1 else 's'}{rounded}){where}"
        unjudged = f"; cannot be judged: {self.unjudged}" if self.unjudged else ""
        if self.difference == self.limit == 0:
            return f"{self.what}: equal to the last bit {counted}{unjudged}"
        limit = "" if math.isnan(self.limit) else f" {'>' if differs else '≤'} {self.limit:.0e}"
        return f"{self.what}: {self.difference:.1e}{limit} {counted}{unjudged}"


def with_row(rows: Iterable[Compared], row: Compared) -> list[Compared]:
    """Add a row, merging it with the row of the same name."""
    found = [old.joined(row) if old.what == row.what else old for old in rows]
    return found if not row.count or any(old.what == row.what for old in found) else [*found, row]
