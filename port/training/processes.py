"""Runs trainers as processes: starts them in order, watches them, and leaves none of them running."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any

from port.errors import TrainerDied, UsageError
from port.training.jobs import Job
from port.training.process_tree import ProcessTree
from port.training.progress import Progress, RecordTail, State
from port.training.ranks import (
    check_nobody_is_there,
    exit_code_of_rank,
    first_to_fail,
    forget_beats,
    where_they_hang,
    without_the_launcher,
)
from port.training.signals import how_it_ended, signal_name

START_SECONDS = 120.0  # the least time a trainer gets to import its framework and make its first step
LAST_LINES = 15
LAST_BYTES = 64 * 1024  # read from the end of a log, which may be large, for its last lines

RECORDING = """\
    import port

    with port.Recorder() as record:        # around the training loop
        ...
            record(step, loss=loss)        # in it, once a step from 0: the loss before the step's update"""

ENDING_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]


class Interrupted(KeyboardInterrupt):
    """Raised on a signal other than Ctrl-C's that asks this process to end; unwinds as Ctrl-C does."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal_name(number)}")
        self.number = number


def run_jobs(
    jobs: Sequence[Job],
    *,
    slots: int = 2,
    watch: Callable[[list[Progress]], object] = lambda rows: None,
    poll_seconds: float = 0.1,
) -> None:
    """Run every job to its end; however this returns or raises, nothing it started still runs.

    Jobs start in order. One that is ``alone`` starts when all before it have ended, and those after it wait until it
    has ended. If a job fails, this process is interrupted or ``watch`` raises, all running jobs are ended: asked to,
    and killed two seconds later. Logs and records are kept.

    Args:
        jobs: the jobs to run.
        slots: how many may run at the same time.
        watch: called at every poll with the progress of all jobs, in order.
        poll_seconds: the time between two polls.

    Raises:
        TrainerDied: a job exited with a code other than 0, or made no step within its time limit; says how, and
            which of its ranks, with the last lines of its output.
        UsageError: ``slots`` is below 1, a job cannot start (missing programs are found before any job starts), or a
        job
            finished without a record; shows the lines that write one.
    """
    if slots < 1:
        raise UsageError(f"slots is how many jobs may run at the same time: 1 or more, got {slots}")
    trainers = [_Trainer(job) for job in jobs]
    try:
        while True:
            _start_next(trainers, slots)
            for trainer in trainers:
                trainer.poll()
            # Processes that outlive a finished trainer would slow the next one down.
            ProcessTree.end([trainer.tree for trainer in trainers if trainer.state == "done"])
            watch([trainer.progress() for trainer in trainers])
            for trainer in trainers:
                if trainer.state == "failed":
                    raise TrainerDied(trainer.obituary(), code=trainer.exit_code())
                if trainer.state == "done" and not trainer.job.record.exists():
                    raise UsageError(trainer.without_a_record())
                if trainer.hangs():
                    raise TrainerDied(trainer.diagnosis())
            if all(trainer.state == "done" for trainer in trainers):
                return
            time.sleep(poll_seconds)
    finally:
        with _deaf():
            ProcessTree.end([trainer.tree for trainer in trainers])


@contextmanager
def terminate_on_signal() -> Iterator[None]:
    """A context in which SIGTERM (and SIGHUP and SIGBREAK, where they exist) raises `Interrupted` in the main thread.

    So ``kill`` on this process ends its trainers, as Ctrl-C does. An ignored signal stays ignored, as nohup requires
    for SIGHUP. In any other thread this does nothing: Python handles signals in the main thread.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted(number)

    with _handling(ENDING_SIGNALS, interrupt):
        yield


class _Trainer:
    """A running job and its progress."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.state: State = "waiting"
        self.tree = ProcessTree()
        self._tail = RecordTail(job.record)
        self._lines = 0  # of its record
        self._has_begun = False  # has written a line in this run: a resumed run starts with some lines
        self._heard_of = time.monotonic()
        # What a trainer printed just before it was killed is in its log, and readable on every system.
        readable_log = {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}
        self._environment = {**readable_log, **os.environ, **job.environment}
        self._check_program()

    def _check_program(self) -> None:
        if not self.job.command:
            raise UsageError(f"{self.job.name} has no command: it needs a program and its arguments")
        program = self.job.command[0]
        if shutil.which(program, path=self._environment.get("PATH")) is None:
            raise UsageError(
                f"{self.job.name} cannot start: there is no executable program {program!r}; "
                "pass the path of one, such as the Python that its packages are installed in"
            )

    def start(self) -> None:
        self.state = "running"
        check_nobody_is_there(self.job.record)
        forget_beats(self.job.record)
        self._tail.poll()
        self._lines, self._heard_of = self._tail.lines, time.monotonic()
        try:
            self.tree.start(self.job.command, self._environment, self.job.log, folder=self.job.folder)
        except OSError as error:
            where = f"program {self.job.command[0]}, log {self.job.log}"
            raise UsageError(f"{self.job.name} cannot start: {error} ({where})") from error

    def poll(self) -> None:
        """Check whether it has ended, and only then what it has recorded: in this order no line is missed."""
        if self.state == "running":
            code = self.tree.exit_code()
            if code is not None:
                self.state = "done" if code == 0 else "failed"
            self._tail.poll()
            if self._tail.lines != self._lines:  # fewer, if a record was truncated to be resumed
                self._has_begun |= self._tail.lines > self._lines
                self._lines, self._heard_of = self._tail.lines, time.monotonic()

    def hangs(self) -> bool:
        """Whether it has written nothing for longer than allowed."""
        limit = self._limit()
        return self.state == "running" and limit is not None and time.monotonic() - self._heard_of > limit

    def _limit(self) -> float | None:
        limit = self.job.time_limit
        in_steps = self._has_begun and not self._tail.ended  # after its record it saves its weights, and shuts down
        return limit if limit is None or in_steps else max(limit, START_SECONDS)

    def exit_code(self) -> int | None:
        """Its exit code, or that of its rank that failed first."""
        return exit_code_of_rank(self._printed()) or self.tree.exit_code()

    def progress(self) -> Progress:
        return self._tail.progress(self.job.name, self.state)

    def obituary(self) -> str:
        """Describe how it ended and where to look, for the error message."""
        how = first_to_fail(self._printed()) or _how_it_ended(self.tree.exit_code())
        return self._report(f"{self.job.name} ended before it had finished: {how}")

    def without_a_record(self) -> str:
        """Describe what it lacks, and the lines to add."""
        script = next((part for part in self.job.command if part.endswith(".py")), "it")
        return (
            f"{self.job.name} finished and recorded nothing, but records are what is compared. In {script} "
            f"these three lines write one:\n\n{RECORDING}\n\nside_by_side/pytorch/script.py and "
            f"side_by_side/jax/script.py are complete examples. Its output: {self.job.log}"
        )

    def diagnosis(self) -> str:
        """Describe where it hangs, for the error message."""
        where = where_they_hang(self.job.record)
        which = "--time-limit, and two minutes at least for the first step and the end"
        if self._limit() == self.job.time_limit:
            which = "--time-limit"
        headline = f"{self.job.name} was ended because it made no step for {self._limit():g} s ({which}): {where}"
        return self._report(headline)

    def _report(self, headline: str) -> str:
        record = self.job.record
        printed = [f"  {line}" for line in _last_lines(without_the_launcher(self._printed()))]
        lines = [
            headline,
            *(["its last lines:", *printed] if printed else ["it printed nothing"]),
            f"its log: {self.job.log}",
            f"its record so far: {record}" if record.exists() else f"its record was not begun: {record}",
        ]
        return "\n".join(lines)

    def _printed(self) -> str:
        """The end of its output."""
        with self.job.log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self.tree.log_begin, size - LAST_BYTES))
            return file.read().decode("utf-8", errors="replace").strip("\r\n")


def _start_next(trainers: Sequence[_Trainer], slots: int) -> None:
    """Start waiting jobs, in order, as long as they may run beside the running ones."""
    running = [trainer for trainer in trainers if trainer.state == "running"]
    for trainer in trainers:
        if trainer.state == "waiting":
            one_at_a_time = trainer.job.alone or any(other.job.alone for other in running)
            if len(running) >= (1 if one_at_a_time else slots):
                return
            trainer.start()
            running.append(trainer)


def _last_lines(printed: str) -> list[str]:
    # A progress bar rewrites its line after a carriage return: only the final text counts.
    lines = [line.rstrip().rpartition("\r")[2] for line in printed.split("\n")]
    return lines[-LAST_LINES:] if printed else []


def _how_it_ended(code: int | None) -> str:
    if code is None:
        return "its exit code is not known"
    usual_cause = "; out of memory is the usual cause" if code == -9 else ""
    return f"{'killed by ' if code < 0 else ''}{how_it_ended(code)}{usual_cause}"


def _deaf() -> AbstractContextManager[None]:
    """A context in which no signal interrupts: it takes seconds, and a second Ctrl-C must not leave orphans behind."""
    return _handling([signal.SIGINT, *ENDING_SIGNALS], signal.SIG_IGN)


@contextmanager
def _handling(numbers: Sequence[signal.Signals], handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in numbers}
    before = {number: old for number, old in before.items() if old is not signal.SIG_IGN}
    try:
        for number in before:
            signal.signal(number, handler)
        yield
    finally:
        for number, old in before.items():
            # None is a handler that wasn't installed from Python, and cannot be restored from here.
            signal.signal(number, signal.SIG_DFL if old is None else old)
