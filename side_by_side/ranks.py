"""What the ranks of either side have in common: the first one records, and all were told the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from port.data import IndexPlan, Shards, Share
from port.errors import UsageError
from port.records import Heartbeat, Recorder, Unrecorded, what_ran
from side_by_side.config import Config


@dataclass(frozen=True)
class Rank:
    """One process of a side's trainer.

    Attributes:
        config: what the run was told.
        rank: this process, from 0.
        processes: how many there are; the replicas are shared out among them, in their order.
    """

    config: Config
    rank: int = 0
    processes: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process records, evaluates and saves."""
        return self.rank == 0

    @property
    def is_sharded(self) -> bool:
        """Whether each replica holds a part of the state, so that no process has all of it."""
        return self.config.parallel == "fsdp" and self.config.replicas > 1

    @property
    def takes_part(self) -> bool:
        """Whether this process evaluates and saves: the first does for all, or all do together."""
        return self.leads or self.is_sharded

    @property
    def own(self) -> int:
        """How many replicas are this process's."""
        return self.config.replicas // self.processes

    def recorder(self, path: Path, first_step: int, about: dict[str, Any]) -> Recorder | Unrecorded:
        """The record, which the first process writes for all; from a later step on, the one that was begun.

        Raises:
            UsageError: that one was begun with other options; names them.
            FolderExists: there is one already, and no run is resumed.
        """
        if not self.leads:
            return Unrecorded()
        if first_step:
            self._check_begun_so(path)
            return Recorder(path, resume_at=first_step)
        return Recorder(path, overwrite=self.config.resume, config=self.config.compared(), **about)

    def _check_begun_so(self, path: Path) -> None:
        begun = what_ran(path).get("config", {})
        now = self.config.compared()
        others = [
            f"--{name.replace('_', '-')} {value} (now {now.get(name)})"
            for name, value in begun.items()
            if value != now.get(name)
        ]
        if others:
            raise UsageError(f"the run of {path} was begun with {', '.join(others)}: go on with it as it was begun")

    def described(self, how: str) -> str | None:
        """The replicas, for the record; None where there is one."""
        places = (
            f"{self.processes} x {self.own} devices" if self.own > 1 < self.processes else f"{self.config.replicas}"
        )
        return f"{places} ({how})" if self.config.replicas > 1 else None

    def heartbeat(self, record: Path) -> Heartbeat:
        """Says beside the record how far this process is."""
        return Heartbeat(record, self.rank)

    def share(self, plan: IndexPlan, *, filled: bool) -> Share:
        """What this process loads; ``filled`` up where it must be as much as every other process does."""
        config = self.config
        shards = Shards(plan, config.replicas, config.split, config.uneven, config.accumulate)
        return Share(shards, range(self.rank * self.own, (self.rank + 1) * self.own), filled)


def told(config: Config, weights: Iterable[np.ndarray], first_step: int) -> dict[str, bytes]:
    """What one process was told, as hashes of 32 bytes. Folders may differ from one machine to the next."""
    options = {**config.compared(), "precision": config.precision}
    contents = hashlib.sha256()
    for array in weights:
        contents.update(str((array.shape, array.dtype)).encode() + np.ascontiguousarray(array).tobytes())
    return {
        "config": hashlib.sha256(str(options).encode()).digest(),
        "set of initial weights": contents.digest(),
        "first step": hashlib.sha256(str(first_step).encode()).digest(),
    }


def check_the_same(told: Sequence[dict[str, bytes]]) -> None:
    """Compare what the processes were told, in the order of their ranks.

    Raises:
        UsageError: they differ; names the ranks, and in what.
    """
    for what, first in told[0].items():
        others = [str(rank) for rank, each in enumerate(told) if each[what] != first]
        if others:
            ranks = f"rank {others[0]} has" if len(others) == 1 else f"ranks {', '.join(others)} have"
            raise UsageError(
                f"{ranks} another {what} than rank 0: start all of them with the same options, the same initial "
                "weights and, to resume, the same checkpoint"
            )
