"""Where a proof's two sides part first, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from port.parity.compare.findings import Parting
    from port.parity.diagnose.causes.cause import Cause


@dataclass(frozen=True)
class Explanation:
    """Where the two sides part, and why.

    Attributes:
        partings: the first layer that differs, in each mode and direction.
        causes: what makes the two agree there.
    """

    partings: tuple[Parting, ...] = ()
    causes: tuple[Cause, ...] = ()

    @property
    def lines(self) -> list[str]:
        """All of it for people, a sentence each."""
        return [*(parting.why for parting in self.partings), *(f"cause: {cause}" for cause in self.causes)]


NONE = Explanation()
