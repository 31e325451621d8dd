"""What the ranks of either side share: the first one records, and all must have the same configuration."""

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
        config: the run's configuration.
        rank: this process, from 0.
        processes: the number of processes; the replicas are divided among them, in order.
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
        """Whether the state is sharded over the replicas, so that no process has all of it."""
        return self.config.parallel == "fsdp" and self.config.replicas > 1

    @property
    def takes_part(self) -> bool:
        """Whether this process evaluates and saves: only the first, or all together."""
        return self.leads or self.is_sharded

    @property
    def own(self) -> int:
        """The number of replicas in this process."""
        return self.config.replicas // self.processes

    def recorder(self, path: Path, first_step: int, about: dict[str, Any]) -> Recorder | Unrecorded:
        """Open the record, which the first process writes for all; from a later step on, the existing one.

        Raises:
            UsageError: the existing one has other options; names them.
            FolderExists: there is one already, but no run is resumed.
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
            raise UsageError(f"the run of {path} was started with {', '.join(others)}: resume it with its own options")

    def described(self, how: str) -> str | None:
        """The replicas, for the record; None where there is one."""
        places = (
            f"{self.processes} x {self.own} devices" if self.own > 1 < self.processes else f"{self.config.replicas}"
        )
        return f"{places} ({how})" if self.config.replicas > 1 else None

    def heartbeat(self, record: Path) -> Heartbeat:
        """The file beside the record with this process's progress."""
        return Heartbeat(record, self.rank)

    def share(self, plan: IndexPlan, *, filled: bool) -> Share:
        """What this process loads; ``filled`` pads it to the size of every other process's."""
        config = self.config
        shards = Shards(plan, config.replicas, config.split, config.uneven, config.accumulate)
        return Share(shards, range(self.rank * self.own, (self.rank + 1) * self.own), filled)


def fingerprints(config: Config, weights: Iterable[np.ndarray], first_step: int) -> dict[str, bytes]:
    """One process's configuration, as hashes of 32 bytes. Folders may differ between machines."""
    options = {**config.compared(), "precision": config.precision}
    contents = hashlib.sha256()
    for array in weights:
        contents.update(str((array.shape, array.dtype)).encode() + np.ascontiguousarray(array).tobytes())
    return {
        "config": hashlib.sha256(str(options).encode()).digest(),
        "set of initial weights": contents.digest(),
        "first step": hashlib.sha256(str(first_step).encode()).digest(),
    }


def check_the_same(configurations: Sequence[dict[str, bytes]]) -> None:
    """Compare the processes' configurations, in the order of their ranks.

    Raises:
        UsageError: they differ; names the ranks, and the difference.
    """
    for what, first in configurations[0].items():
        others = [str(rank) for rank, each in enumerate(configurations) if each[what] != first]
        if others:
            ranks = f"rank {others[0]} has" if len(others) == 1 else f"ranks {', '.join(others)} have"
            raise UsageError(
                f"{ranks} another {what} than rank 0: start all of them with the same options, the same initial "
                "weights and, to resume, the same checkpoint"
            )
