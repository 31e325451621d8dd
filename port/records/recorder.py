"""The recorder: a trainer calls it once per step, and it writes the record.

A record is a file of JSON lines: one ``run`` line (what ran), one ``step`` line per step, one ``evaluation`` line per
evaluation, and an ``end`` line once the trainer has finished. Floats are written so that reading them returns the
same float; those that JSON cannot express are the strings "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Any

from port.errors import FolderExists, NoLauncher, UsageError
from port.records.device_values import Pending
from port.records.json_numbers import to_json
from port.records.resuming import cut_back

RECORD_VARIABLE = "PORT_RECORD"  # the launcher sets these: the path of a trainer's record, and its side
SIDE_VARIABLE = "PORT_SIDE"
FLUSH_SECONDS = 0.2
MOST_PENDING = 1000  # the most lines to hold back, however far behind the device is


class Recorder:
    """Writes a run's record: ``with port.Recorder() as record: … record(step, loss=loss, lr=lr)``.

    Values may be Python numbers, numpy or jax arrays, or torch tensors of one element, on any device. They are
    fetched once the device has computed them, so that recording a step does not wait for the step. The names ``kind``,
    ``seconds`` and ``start`` are reserved.

    Args:
        path: where to write. Under ``port train`` the launcher overrides it; otherwise a path is required.
        overwrite: replace an existing record.
        resume_at: continue the existing record at this step, the next step of a killed run that resumes from a
            checkpoint. Lines before that step stay byte for byte, lines of later steps are removed; seconds continue
            from the last line's.
        about: anything worth keeping about the run. ``total_steps`` is used for the time left in the live view;
            ``precision``, "float64" or "float32", defaults to the first loss's; the launcher overrides ``side``. The
            run's page shows the notes for the names in ``layers``, as returned by `port.records.layer_names`, and for
            ``criterion`` and ``optimizer``, as "torch.nn.CrossEntropyLoss" and "torch.optim.AdamW". A resumed record
            has these values already.

    Raises:
        NoLauncher: no path, and not started by ``port train``.
        UsageError: a reserved name; nothing to resume; both ``overwrite`` and ``resume_at``.
        FolderExists: a record exists at ``path``.
        BrokenRecord: the record to resume is broken before its last line, or ends before ``resume_at``.
    """

    def __init__(
        self, path: Path | str | None = None, *, overwrite: bool = False, resume_at: int | None = None, **about: Any
    ) -> None:
        launched = os.environ.get(RECORD_VARIABLE)
        chosen = launched if launched is not None else path
        if chosen is None:
            raise NoLauncher(
                "the record has no path: start the script with `port train --torch-script … --jax-script …`, or pass "
                "a path: port.Recorder('record.jsonl')"
            )
        self.path = Path(chosen)
        if overwrite and resume_at is not None:
            raise UsageError("overwrite starts a new record and resume_at continues one: pass only one of them")
        if self.path.exists() and launched is None and not overwrite and resume_at is None:
            raise FolderExists(f"there is a record at {self.path} already; choose another path, or pass overwrite=True")
        _refuse_own_names(about)
        self._about = {**about, "side": os.environ.get(SIDE_VARIABLE) or about.get("side")}
        self._pending: deque[dict[str, Any]] = deque()
        self._opened = self._flushed = time.perf_counter()
        self._wrote_run = False
        self._last = {"step": -1, "evaluation": -1}
        if resume_at is not None:
            kept = cut_back(self.path, resume_at)
            self._last, self._wrote_run = kept.last, not kept.is_empty
            self._opened -= kept.seconds  # as if it had been open all along
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("w" if resume_at is None else "a", encoding="utf-8")

    def __call__(self, step: int, *, loss: Any, **more: Any) -> None:
        """Record one training step.

        Args:
            step: counted from 0; each step once, in order.
            loss: the step's loss, before its update.
            more: other values worth comparing: ``epoch``, ``lr``, ``grad_norm`` …

        Raises:
            UsageError: a step out of order, or a value that is not a single number.
        """
        self._take("step", step, {"loss": loss, **more})

    def evaluation(self, step: int, *, loss: Any, duration: float | None = None, **more: Any) -> None:
        """Record an evaluation made after training step ``step``.

        Args:
            step: the last step before the evaluation.
            loss: the mean loss over the split.
            duration: seconds that the evaluation took, which steps/s leaves out.
            more: other measured values: ``epoch``, ``accuracy`` …

        Raises:
            UsageError: as for a step; at most one evaluation per step.
        """
        self._take("evaluation", step, {"loss": loss, **more, "duration": duration})

    def flush(self) -> None:
        """Fetch and write everything pending, and sync it to disk.

        Call it right before saving a checkpoint, after the evaluation of the same step: however the process then ends,
        the record holds everything up to the checkpoint, and a `Recorder` can resume there.
        """
        if self._file.closed:
            return
        while self._pending:
            self._write_oldest()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._flushed = time.perf_counter()

    def close(self, *, finished: bool = True) -> None:
        """Fetch and write what is pending; ``finished`` adds the line that marks the run as finished."""
        if self._file.closed:
            return
        try:
            while self._pending:
                self._write_oldest()
            if finished:
                self._write({"kind": "end", "seconds": self._seconds()})
        finally:
            self._file.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, error: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(finished=error is None)

    def _seconds(self) -> float:
        return round(time.perf_counter() - self._opened, 6)

    def _take(self, kind: str, step: int, values: dict[str, Any]) -> None:
        if self._file.closed:
            raise UsageError("this recorder is closed: record inside its `with` block")
        if int(step) != step or step <= self._last[kind]:
            after = f" after {self._last[kind]}" if self._last[kind] >= 0 else ", the first is 0 or later"
            raise UsageError(f"{kind}s are recorded once per step, in order: got {step!r}{after}")
        if values["loss"] is None or isinstance(values["loss"], str | bool):
            raise UsageError(f"loss must be a number, got {values['loss']!r}")
        _refuse_own_names(values)
        fetches = {name: Pending(name, value) for name, value in values.items() if value is not None}
        self._pending.append({"kind": kind, "step": int(step), **fetches, "seconds": self._seconds()})
        self._last[kind] = int(step)
        now = time.perf_counter()
        if now - self._flushed > FLUSH_SECONDS or len(self._pending) > MOST_PENDING:
            self._flushed = now
            self._write_ready()

    def _write_ready(self) -> None:
        while self._pending and (len(self._pending) > MOST_PENDING or _all_ready(self._pending[0])):
            self._write_oldest()
        self._file.flush()

    def _write_oldest(self) -> None:
        line = self._pending.popleft()
        if not self._wrote_run:
            self._wrote_run = True
            about = {"precision": line["loss"].dtype, **self._about}
            self._write({"kind": "run", **about, "start": time.time() - self._seconds()})
        self._write({name: v.result() if isinstance(v, Pending) else v for name, v in line.items()})

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(to_json(line), default=str) + "\n")


def record_path(path: Path | str) -> Path:
    """The path of a trainer's record: the launcher's, or else ``path``."""
    return Path(os.environ.get(RECORD_VARIABLE, path))


def _all_ready(line: dict[str, Any]) -> bool:
    return all(value.ready() for value in line.values() if isinstance(value, Pending))


def _refuse_own_names(values: dict[str, Any]) -> None:
    own = sorted({"kind", "seconds", "start"} & set(values))
    if own:
        raise UsageError(f"{own[0]} is a reserved name of records; record it under another name")
