"""The progress of each rank of a trainer, to find out which of them hangs."""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from port.records.recorder import record_path

_LAYOUT = struct.Struct("<qq")  # process number, step


class Heartbeat:
    """Called by every rank as it begins a step: ``with Heartbeat(path, rank) as beat: … beat(step)``.

    The step is written to a small memory-mapped file, which takes about a microsecond and survives a kill.

    Args:
        record: the trainer's record; the file is next to it. The launcher overrides it, as with `Recorder`.
        rank: this process's rank, from 0.
    """

    def __init__(self, record: Path | str, rank: int) -> None:
        self.path = _beat_of(record_path(record), rank)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(_LAYOUT.pack(os.getpid(), -1))
        with self.path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _LAYOUT.size)

    def __call__(self, step: int) -> None:
        """Report that this rank begins a step, counted from 0."""
        _LAYOUT.pack_into(self._memory, 0, os.getpid(), step)

    def __enter__(self) -> Heartbeat:
        return self

    def __exit__(
        self, error: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._memory.close()
        if error is None:
            self.path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Beat:
    """The last sign of a rank: its process number, and the step that it began (−1: none yet)."""

    rank: int
    process: int
    step: int


def read_beats(record: Path) -> list[Beat]:
    """Read the last beat of every rank that has not finished, by rank."""
    beats = []
    for path in record.parent.glob(f"{record.stem}.rank-*"):
        try:
            contents, rank = path.read_bytes(), path.suffix.removeprefix(".rank-")
        except FileNotFoundError:  # it has finished meanwhile
            continue
        if len(contents) == _LAYOUT.size and rank.isdecimal():
            beats.append(Beat(int(rank), *_LAYOUT.unpack(contents)))
    return sorted(beats, key=lambda beat: beat.rank)


def _beat_of(record: Path, rank: int) -> Path:
    return record.with_suffix(f".rank-{rank}")
