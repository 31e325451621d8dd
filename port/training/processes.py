"""Runs trainers as processes: starts them in their order, watches them, and leaves none of them running."""

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

START_SECONDS = 120.0  # that a trainer may take, at least, to import its framework and make its first step
LAST_LINES = 15
LAST_BYTES = 64 * 1024  # of a log, which may be large, are read for its last lines

RECORDING = """\
    import port

    with port.Recorder() as record:        # around the training loop
        ...
            record(step, loss=loss)        # in it, once a step from 0: the loss before the step's update"""

ENDING_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]


class Interrupted(KeyboardInterrupt):
    """Somebody asked this process to end by another signal than Ctrl-C's; unwinds as Ctrl-C does."""

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
    """Run every job to its end; whichever way this returns or raises, nothing it started still runs.

    Jobs start in the given order. One that is ``alone`` starts when all before it have ended, and those after
    it wait until it has. When a job fails, this process is interrupted or ``watch`` raises, all that run are
    ended: asked to, and killed two seconds later. Logs and records stay as they are.

    Args:
        jobs: what to run.
        slots: how many may run side by side.
        watch: called at every poll with the progress of all jobs, in their order.
        poll_seconds: between two polls.

    Raises:
        TrainerDied: a job ended with another exit code than 0, or made no step within its time limit; says how, and
            which of its ranks, and carries its last lines.
        UsageError: ``slots`` is below 1, a job cannot start (a missing program is told before any starts), or one came
            to its end without a record; says which lines make one.
    """
    if slots < 1:
        raise UsageError(f"slots says how many jobs may run side by side: 1 or more, got {slots}")
    trainers = [_Trainer(job) for job in jobs]
    try:
        while True:
            _start_next(trainers, slots)
            for trainer in trainers:
                trainer.poll()
            # What outlives a trainer that has done its work would slow the next one down.
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
    """Within it, SIGTERM (and SIGHUP and SIGBREAK, where they exist) raises `Interrupted` in the main thread.

    So ``kill`` on this process ends its trainers, as Ctrl-C does. A signal that is ignored stays ignored, as
    nohup wants of SIGHUP. In any other thread this does nothing: Python handles signals in the main one.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted(number)

    with _handling(ENDING_SIGNALS, interrupt):
        yield


class _Trainer:
    """A job, and how far it is."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.state: State = "waiting"
        self.tree = ProcessTree()
        self._tail = RecordTail(job.record)
        self._lines = 0  # of its record
        self._has_begun = False  # has written a line of its own: of a resumed run there are some already
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
                f"{self.job.name} cannot start: there is no program {program!r} that may be run; "
                "give the path of one, such as the Python that its packages are installed in"
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
        """See whether it has ended, and then what it has recorded: in this order no line is missed."""
        if self.state == "running":
            code = self.tree.exit_code()
            if code is not None:
                self.state = "done" if code == 0 else "failed"
            self._tail.poll()
            if self._tail.lines != self._lines:  # fewer, where a record is cut back to be resumed
                self._has_begun |= self._tail.lines > self._lines
                self._lines, self._heard_of = self._tail.lines, time.monotonic()

    def hangs(self) -> bool:
        """Whether it has written nothing for longer than it may."""
        limit = self._limit()
        return self.state == "running" and limit is not None and time.monotonic() - self._heard_of > limit

    def _limit(self) -> float | None:
        limit = self.job.time_limit
        in_steps = self._has_begun and not self._tail.ended  # behind its record it saves its weights, and says goodbye
        return limit if limit is None or in_steps else max(limit, START_SECONDS)

    def exit_code(self) -> int | None:
        """Its exit code, or that of its rank that failed first."""
        return exit_code_of_rank(self._printed()) or self.tree.exit_code()

    def progress(self) -> Progress:
        return self._tail.progress(self.job.name, self.state)

    def obituary(self) -> str:
        """How it ended and where to look, for whoever reads the error."""
        how = first_to_fail(self._printed()) or _how_it_ended(self.tree.exit_code())
        return self._report(f"{self.job.name} ended before it had finished: {how}")

    def without_a_record(self) -> str:
        """What it lacks, and the lines that mend it."""
        script = next((part for part in self.job.command if part.endswith(".py")), "it")
        return (
            f"{self.job.name} came to its end and has recorded nothing, and records are what is compared. In {script} "
            f"these three lines make one:\n\n{RECORDING}\n\nside_by_side/pytorch/script.py and "
            f"side_by_side/jax/script.py are whole ones. What it printed: {self.job.log}"
        )

    def diagnosis(self) -> str:
        """Where it hangs, for whoever reads the error."""
        where = where_they_hang(self.job.record)
        which = "--time-limit, and two minutes at least for the first step and the end"
        if self._limit() == self.job.time_limit:
            which = "--time-limit"
        headline = f"{self.job.name} was ended, as it had made no step for {self._limit():g} s ({which}): {where}"
        return self._report(headline)

    def _report(self, headline: str) -> str:
        record = self.job.record
        printed = [f"  {line}" for line in _last_lines(without_the_launcher(self._printed()))]
        lines = [
            headline,
            *(["its last lines:", *printed] if printed else ["it printed nothing"]),
            f"its log: {self.job.log}",
            f"its record so far: {record}" if record.exists() else f"its record had not been begun: {record}",
        ]
        return "\n".join(lines)

    def _printed(self) -> str:
        """The end of what it has printed."""
        with self.job.log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self.tree.log_begin, size - LAST_BYTES))
            return file.read().decode("utf-8", errors="replace").strip("\r\n")


def _start_next(trainers: Sequence[_Trainer], slots: int) -> None:
    """Start as many of those that wait, from the first on, as may run beside those that do."""
    running = [trainer for trainer in trainers if trainer.state == "running"]
    for trainer in trainers:
        if trainer.state == "waiting":
            one_at_a_time = trainer.job.alone or any(other.job.alone for other in running)
            if len(running) >= (1 if one_at_a_time else slots):
                return
            trainer.start()
            running.append(trainer)


def _last_lines(printed: str) -> list[str]:
    # A progress bar writes its line anew after a carriage return: what the line came to is what counts.
    lines = [line.rstrip().rpartition("\r")[2] for line in printed.split("\n")]
    return lines[-LAST_LINES:] if printed else []


def _how_it_ended(code: int | None) -> str:
    if code is None:
        return "its exit code is not known"
    usual_cause = "; out of memory is the usual cause" if code == -9 else ""
    return f"{'killed by ' if code < 0 else ''}{how_it_ended(code)}{usual_cause}"


def _deaf() -> AbstractContextManager[None]:
    """Within it no signal interrupts: it lasts seconds, and a second Ctrl-C must not leave orphans behind."""
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
            # None is a handler that wasn't installed from Python, and can't be from here.
            signal.signal(number, signal.SIG_DFL if old is None else old)
