"""One kind of thing that was compared: the largest difference, and how many tensors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from port.judging.status import Status


@dataclass(frozen=True)
class Compared:
    """One kind of thing that was compared.

    Attributes:
        what: of which.
        difference: the largest, relative.
        limit: what it may be.
        where: the tensor with that difference.
        count: how many tensors were compared.
        rounded: how many of them are beyond their limit by rounding alone, as the original's own control shows; they
            are not in ``difference``.
        unjudged: why a tensor cannot be judged; empty if all can.
    """

    what: str
    difference: float
    limit: float
    where: str
    count: int
    rounded: int = 0
    unjudged: str = ""

    @property
    def status(self) -> Status:
        """Agree, differ, or cannot be judged."""
        if not self.difference <= self.limit:
            return Status.DIFFER
        return Status.CANNOT_JUDGE if self.unjudged else Status.AGREE

    @property
    def agrees(self) -> bool:
        return self.status is Status.AGREE

    def joined(self, other: Compared) -> Compared:
        """The row of both rows' tensors, which are of one kind."""
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
        tensors = f"({self.count} tensors{rounded}){where}"
        unjudged = f"; cannot be judged: {self.unjudged}" if self.unjudged else ""
        return f"{self.what}: {self.difference:.1e} {'>' if differs else '≤'} {self.limit:.0e} {tensors}{unjudged}"


def with_row(rows: Iterable[Compared], row: Compared) -> list[Compared]:
    """Rows with one more, which is joined to the one of the same name."""
    found = [old.joined(row) if old.what == row.what else old for old in rows]
    return found if not row.count or any(old.what == row.what for old in found) else [*found, row]
