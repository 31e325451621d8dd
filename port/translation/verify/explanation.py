"""The explanation of a proof that differs: the first layer that does, and the cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from port.parity.compare.findings import Parting
    from port.parity.diagnose.causes.cause import Cause


@dataclass(frozen=True)
class Explanation:
    """Where the two sides differ first, and why.

    Attributes:
        partings: the first layer that differs, in each mode and direction.
        causes: changes that make the two sides agree there.
    """

    partings: tuple[Parting, ...] = ()
    causes: tuple[Cause, ...] = ()

    @property
    def lines(self) -> list[str]:
        """The explanation as text, one line per finding."""
        return [*(parting.why for parting in self.partings), *(f"cause: {cause}" for cause in self.causes)]


NONE = Explanation()
