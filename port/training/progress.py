"""The progress of a trainer, read from its record while it is written."""

from __future__ import annotations

import json
import os
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

State = Literal["waiting", "running", "done", "failed", "stopped"]
SPEED_WINDOW = 10.0  # seconds of training that the speed is measured over


@dataclass(frozen=True)
class Progress:
    """The progress of one job.

    Attributes:
        job: its name.
        state: "stopped" is a job that was ended because another failed, or on an interrupt.
        step: the last step in its record, counted from 0.
        total_steps: its planned number of steps, if its record says so.
        loss: at that step.
        accuracy: of the last evaluation, from 0 to 1.
        steps_per_second: recent speed, without evaluations and without the first step, which compiles.
    """

    job: str
    state: State = "waiting"
    step: int | None = None
    total_steps: int | None = None
    loss: float | None = None
    accuracy: float | None = None
    steps_per_second: float | None = None

    @property
    def steps_done(self) -> int:
        """The number of finished steps."""
        return 0 if self.step is None else self.step + 1

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the last step, at the present speed; None if that is unknown or the job isn't running."""
        if self.state != "running" or self.total_steps is None or not self.steps_per_second:
            return None
        return max(0, self.total_steps - self.steps_done) / self.steps_per_second


class RecordTail:
    """Follows a record while it is written, reading each byte once.

    Ignores a missing file, a half-written line and an invalid line: whoever reads the finished record reports
    them.
    """

    def __init__(self, record: Path) -> None:
        self._record = record
        self._begin_file()

    def _begin_file(self) -> None:
        self._read = 0  # bytes
        self.lines = 0  # whole ones
        self._half_line = b""
        self._begin_run()

    def _begin_run(self) -> None:
        self._latest = Progress(job="")
        self.ended = False  # the trainer has finished its record
        self._saw_first_step = False
        self._evaluating = 0.0  # seconds
        self._recent: deque[tuple[int, float]] = deque()  # (step, seconds of training until then)

    def poll(self) -> None:
        """Read what was written since the last call."""
        try:
            with self._record.open("rb") as file:
                if file.seek(0, os.SEEK_END) < self._read:  # the file was rewritten
                    self._begin_file()
                file.seek(self._read)
                new = file.read()
        except OSError:
            return
        self._read += len(new)
        *lines, self._half_line = (self._half_line + new).split(b"\n")
        self.lines += len(lines)
        for line in lines:
            self._take(line)

    def progress(self, job: str, state: State) -> Progress:
        """The record so far, as the progress of ``job``."""
        return replace(self._latest, job=job, state=state, steps_per_second=self._steps_per_second())

    def _take(self, line: bytes) -> None:
        try:
            values = json.loads(line)
        except ValueError:
            return
        if not isinstance(values, dict):
            return
        kind = values.get("kind", "step")
        if kind == "run":
            self._begin_run()
            self._latest = replace(self._latest, total_steps=_whole(values.get("total_steps")))
        elif kind == "end":
            self.ended = True
        elif kind == "step":
            self._take_step(_whole(values.get("step")), values)
        elif kind == "evaluation":
            self._latest = replace(self._latest, accuracy=_number(values.get("accuracy")))
            self._evaluating += _number(values.get("duration")) or 0.0

    def _take_step(self, step: int | None, values: dict[str, Any]) -> None:
        if step is None:
            return
        self._latest = replace(self._latest, step=step, loss=_number(values.get("loss")))
        seconds = _number(values.get("seconds"))
        if self._saw_first_step and seconds is not None:
            trained = seconds - self._evaluating
            self._recent.append((step, trained))
            while len(self._recent) > 2 and self._recent[1][1] < trained - SPEED_WINDOW:
                self._recent.popleft()
        self._saw_first_step = True

    def _steps_per_second(self) -> float | None:
        if len(self._recent) < 2:
            return None
        (first, begin), (last, end) = self._recent[0], self._recent[-1]
        return (last - first) / (end - begin) if last > first and end > begin else None


def _number(value: Any) -> float | None:
    """A number as records write it, including "NaN" and "Infinity"; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _whole(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number.is_integer() and number >= 0 else None
