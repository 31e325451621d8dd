"""Which of a script's processes this is, where torchrun has started several."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class ProcessRank:
    """One of the processes.

    Attributes:
        number: from 0.
        size: how many there are.
    """

    number: int = 0
    size: int = 1

    @classmethod
    def of_this_process(cls) -> ProcessRank:
        """By torchrun's own variables; one of one where it has not started this process."""
        return cls(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))

    @property
    def is_first(self) -> bool:
        """Whether it is the one that says what happens, and writes."""
        return self.number == 0
