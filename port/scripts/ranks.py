"""This process's rank, if torchrun started several."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class ProcessRank:
    """The rank of one process.

    Attributes:
        number: from 0.
        size: how many there are.
    """

    number: int = 0
    size: int = 1

    @classmethod
    def of_this_process(cls) -> ProcessRank:
        """Read it from torchrun's environment variables; rank 0 of 1 if torchrun did not start this process."""
        return cls(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which reports and writes."""
        return self.number == 0
