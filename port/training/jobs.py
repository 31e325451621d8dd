"""A job: one trainer process that has not been started."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Job:
    """The command of one process, and the files that it writes.

    Attributes:
        name: shown in the live view and in errors, like "torch float64".
        command: the program and its arguments.
        environment: variables added to those of this process.
        record: the JSON lines that the trainer appends to.
        log: the file for its stdout and stderr, interleaved.
        alone: its speed is reported, so no other job runs at the same time.
        time_limit: seconds allowed between two lines of its record; None for no limit.
        weights: the file for its final weights, if it writes them.
        folder: its working directory; None for the current one.
    """

    name: str
    command: tuple[str, ...]
    environment: dict[str, str]
    record: Path
    log: Path
    alone: bool
    time_limit: float | None = None
    weights: Path | None = None
    folder: Path | None = None
