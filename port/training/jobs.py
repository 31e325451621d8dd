"""A job: one trainer, as a process that has not been started."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Job:
    """What one process is to run, and where it writes.

    Attributes:
        name: what a person reads in the live view and in errors, like "torch float64".
        command: the program and its arguments.
        environment: variables added to those of this process.
        record: the JSON lines that the trainer appends to.
        log: where its output and its errors go, one after the other as they come.
        alone: its speed will be told, so it runs with no other job beside it.
        time_limit: seconds that it may take from one line of its record to the next; None is without end.
        weights: where it leaves its final weights, if it does.
        folder: where it runs; None is here.
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
