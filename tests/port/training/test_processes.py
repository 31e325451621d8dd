"""Trainers as processes: order, failure, interruption, and that nothing is left running.

The trainers are short scripts, each given its record's path; `TRAINER` is what they have in common.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from port.errors import TrainerDied, UsageError
from port.training import processes
from port.training.jobs import Job
from port.training.processes import Interrupted, run_jobs, terminate_on_signal
from port.training.progress import Progress

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="asks for POSIX signals or sessions")

TRAINER = """
import json, os, signal, subprocess, sys, time

record = open(sys.argv[1], "a")

def write(**line):
    print(json.dumps(line), file=record, flush=True)

def spawn(**how):
    "A worker that would run for a minute; its number goes into the record."
    child = subprocess.Popen([sys.executable, "-IS", "-c", "import time; time.sleep(60)"], **how)
    write(kind="worker", pid=child.pid)

write(kind="run", total_steps=2, pid=os.getpid(), begin=time.time())
"""
STEPS = """
write(kind="step", step=0, loss=2.5, seconds=0.1)
write(kind="step", step=1, loss=1.5, seconds=0.2)
time.sleep({seconds})
write(kind="end", end=time.time())
"""
IGNORE_SIGTERM = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
FOREVER = "write(kind='step', step=0, loss=2.5, seconds=0.1)\ntime.sleep(60)\n"

MakeJob = Callable[..., Job]


@pytest.fixture
def make_job(tmp_path: Path) -> Iterator[MakeJob]:
    """Makes jobs of fake trainers; at the end nothing that any of them has noted may be running."""
    made: list[Job] = []

    def make(name: str, body: str, *, alone: bool = False, environment: dict[str, str] | None = None) -> Job:
        script = tmp_path / f"{name}.py"
        script.write_text(TRAINER + body, encoding="utf-8")
        record, log = tmp_path / f"{name}.jsonl", tmp_path / "logs" / f"{name}.log"
        command = (sys.executable, "-S", str(script), str(record))
        made.append(Job(name, command, environment or {}, record, log, alone))
        return made[-1]

    yield make
    pids = [pid for job in made for pid in pids_in(job)]
    left = [pid for pid in pids if is_running(pid)]
    for pid in left:
        psutil.Process(pid).kill()
    assert not left


@pytest.fixture
def type_into_standard_input() -> Iterator[Callable[[str], None]]:
    """Gives this process something that a trainer could take from it."""
    kept = os.dup(0)

    def type_text(text: str) -> None:
        read, write = os.pipe()
        os.write(write, text.encode())
        os.close(write)
        os.dup2(read, 0)
        os.close(read)

    yield type_text
    os.dup2(kept, 0)
    os.close(kept)


def lines(job: Job) -> list[dict]:
    written = job.record.read_text(encoding="utf-8") if job.record.exists() else ""
    return [json.loads(line) for line in written.splitlines()]


def pids_in(job: Job) -> list[int]:
    return [line["pid"] for line in lines(job) if "pid" in line]


def kinds(job: Job) -> list[str]:
    return [line["kind"] for line in lines(job)]


def span(job: Job) -> tuple[float, float]:
    return lines(job)[0]["begin"], lines(job)[-1]["end"]


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Watch:
    """Remembers all that it was shown; raises ``error`` once every job in ``until`` has made a step."""

    def __init__(self, error: BaseException | None = None, until: tuple[Job, ...] = ()) -> None:
        self.shown: list[list[Progress]] = []
        self.error, self.until = error, until
        self.raised_at = 0.0

    def __call__(self, rows: list[Progress]) -> None:
        self.shown.append(rows)
        if self.error is not None and all("step" in kinds(job) for job in self.until):
            self.raised_at = time.monotonic()
            raise self.error


class TestOrder:
    @pytest.mark.sweep
    def test_at_most_slots_run_side_by_side_in_the_given_order(self, make_job: MakeJob) -> None:
        jobs = [make_job(name, STEPS.format(seconds=0.4)) for name in "abcde"]
        watch = Watch()
        run_jobs(jobs, slots=2, watch=watch, poll_seconds=0.02)

        begun = [span(job)[0] for job in jobs]
        together = [sum(begin <= moment < end for begin, end in map(span, jobs)) for moment in begun]
        assert max(together) == 2
        for rows in watch.shown:
            waits = [row.state == "waiting" for row in rows]
            assert waits == sorted(waits), "a job started before one that stands ahead of it"

    @pytest.mark.sweep
    def test_an_alone_job_has_nothing_beside_it(self, make_job: MakeJob) -> None:
        jobs = [make_job(name, STEPS.format(seconds=0.2), alone=name.isupper()) for name in "abCDefG"]
        run_jobs(jobs, slots=3, poll_seconds=0.02)

        spans = [span(job) for job in jobs]
        for place, job in enumerate(jobs):
            if job.alone:
                begin, end = spans[place]
                assert all(other_end <= begin for _, other_end in spans[:place])
                assert all(other_begin >= end for other_begin, _ in spans[place + 1 :])
        (_, end_of_e), (begin_of_f, _) = spans[4], spans[5]
        assert begin_of_f < end_of_e, "jobs that are not alone may run side by side"

    def test_progress_goes_from_waiting_to_done(self, make_job: MakeJob) -> None:
        jobs = [make_job("a", STEPS.format(seconds=0.1)), make_job("b", STEPS.format(seconds=0.1))]
        watch = Watch()
        run_jobs(jobs, slots=1, watch=watch, poll_seconds=0.02)

        states = list(dict.fromkeys(tuple(row.state for row in rows) for rows in watch.shown))
        assert states == [("running", "waiting"), ("done", "waiting"), ("done", "running"), ("done", "done")]
        assert [(row.job, row.step, row.total_steps, row.loss) for row in watch.shown[-1]] == [
            ("a", 1, 2, 1.5),
            ("b", 1, 2, 1.5),
        ]

    def test_no_slot_is_refused(self, make_job: MakeJob) -> None:
        with pytest.raises(UsageError, match="1 or more, got 0"):
            run_jobs([make_job("a", "")], slots=0)


class TestStarting:
    def test_a_trainer_has_its_environment_no_input_and_its_log(
        self,
        make_job: MakeJob,
        monkeypatch: pytest.MonkeyPatch,
        type_into_standard_input: Callable[[str], None],
    ) -> None:
        monkeypatch.setenv("INHERITED", "from above")
        monkeypatch.setenv("CHANGED", "from above")
        type_into_standard_input("typed")
        say = "print(repr(sys.stdin.read()), os.environ['INHERITED'], os.environ['CHANGED'], 'é')\n"
        job = make_job("a", say + "print('an error', file=sys.stderr)", environment={"CHANGED": "by the job"})
        run_jobs([job])
        assert job.log.read_text(encoding="utf-8").splitlines() == [
            "'' from above by the job é",
            "an error",
        ]

    @posix_only
    def test_the_terminals_interrupt_does_not_reach_a_trainer(self, make_job: MakeJob) -> None:
        job = make_job("a", "print(os.getsid(0) == os.getpgid(0) == os.getpid())")
        run_jobs([job])
        assert job.log.read_text() == "True\n"

    def test_a_missing_program_is_told_before_anything_starts(self, make_job: MakeJob, tmp_path: Path) -> None:
        first = make_job("first", STEPS.format(seconds=0))
        second = Job("torch float64", ("no-such-python", "-m", "x"), {}, tmp_path / "r", tmp_path / "l", False)
        with pytest.raises(UsageError, match=r"torch float64 cannot start: .*'no-such-python'"):
            run_jobs([first, second], slots=1)
        assert not first.record.exists()

    def test_a_job_without_a_command_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="jax float32 has no command"):
            run_jobs([Job("jax float32", (), {}, tmp_path / "r", tmp_path / "l", False)])

    @posix_only
    def test_a_program_that_the_system_cannot_run_is_told_by_name(self, tmp_path: Path) -> None:
        program = tmp_path / "program"
        program.write_bytes(b"\x00\x01 no program of any system")
        program.chmod(0o755)
        with pytest.raises(UsageError, match=r"jax float32 cannot start: .*format error"):
            run_jobs([Job("jax float32", (str(program),), {}, tmp_path / "r", tmp_path / "l", False)])


class TestFailure:
    def test_it_ends_the_others_and_tells_the_last_lines(self, make_job: MakeJob) -> None:
        other = make_job("other", FOREVER)
        wait = f"while not os.path.exists({str(other.record)!r}): time.sleep(0.01)\n"
        print_lines = "for n in range(40): print('line', n)\n"
        failing = make_job("torch float64", wait + print_lines + "sys.exit(3)")
        never = make_job("never", FOREVER)
        watch = Watch()
        with pytest.raises(TrainerDied) as caught:
            run_jobs([other, failing, never], watch=watch)

        said = str(caught.value).splitlines()
        assert said[0] == "torch float64 ended before it had finished: exit code 3"
        assert said[2:17] == [f"  line {n}" for n in range(25, 40)]
        assert said[17:] == [f"its log: {failing.log}", f"its record so far: {failing.record}"]
        assert [row.state for row in watch.shown[-1]] == ["running", "failed", "waiting"]
        assert not is_running(pids_in(other)[0])
        assert kinds(other)[0] == "run", "what it had recorded stays"
        assert not never.record.exists()

    @posix_only
    @pytest.mark.parametrize(
        ("name", "says"),
        [
            ("SIGKILL", r"killed by signal 9 \(SIGKILL\); out of memory is the usual cause$"),
            ("SIGTERM", r"killed by signal 15 \(SIGTERM\)$"),
        ],
    )
    def test_a_signal_is_told_by_name(
        self, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch, name: str, says: str
    ) -> None:
        monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
        job = make_job("jax float32", f"print('step 7'); os.kill(os.getpid(), signal.{name})")
        with pytest.raises(TrainerDied, match=rf"(?m)^jax float32 ended before it had finished: {says}") as caught:
            run_jobs([job])
        assert "  step 7\n" in str(caught.value), "what it printed just before was lost in its buffer"

    def test_only_this_runs_lines_are_told(self, make_job: MakeJob) -> None:
        job = make_job("a", "os.remove(sys.argv[1]) if os.name == 'posix' else None\nsys.exit(2)")
        job.log.parent.mkdir()
        job.log.write_text("of an earlier run\n")
        with pytest.raises(TrainerDied, match="exit code 2\nit printed nothing\n") as caught:
            run_jobs([job])
        assert "of an earlier run" not in str(caught.value)
        assert job.log.read_text() == "of an earlier run\n"
        if os.name == "posix":
            assert f"its record was not begun: {job.record}" in str(caught.value)

    def test_a_progress_bar_counts_as_its_last_state(self, make_job: MakeJob) -> None:
        job = make_job("a", r"print('\r 10%\r 20%\r 30%'); print('stopped'); sys.exit(1)")
        with pytest.raises(TrainerDied, match="its last lines:\n   30%\n  stopped\n"):
            run_jobs([job])

    def test_a_very_long_log_is_read_from_its_end(self, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(processes, "LAST_BYTES", 20)
        job = make_job("a", "print('x' * 1000); print('the end'); sys.exit(1)")
        with pytest.raises(TrainerDied, match=r"lines:\n  x{11}\n  the end\n"):
            run_jobs([job])


class TestInterruption:
    @pytest.mark.parametrize("error", [KeyboardInterrupt(), Interrupted(15), RuntimeError("in the view")])
    def test_it_ends_all_and_goes_on_up(self, make_job: MakeJob, error: BaseException) -> None:
        jobs = (make_job("a", FOREVER), make_job("b", FOREVER))
        watch = Watch(error, until=jobs)
        with pytest.raises(type(error)) as caught:
            run_jobs(jobs, watch=watch)
        assert caught.value is error
        assert time.monotonic() - watch.raised_at < 1.5, "nobody resisted, so nobody had to be waited for"
        assert not any(is_running(pid) for job in jobs for pid in pids_in(job))
        assert [kinds(job) for job in jobs] == [["run", "step"]] * 2

    @posix_only
    @pytest.mark.sweep
    def test_one_that_ignores_sigterm_is_killed(self, make_job: MakeJob) -> None:
        stubborn = make_job("stubborn", IGNORE_SIGTERM + "spawn()\n" + FOREVER)
        gentle = make_job(
            "gentle",
            "signal.signal(signal.SIGTERM, lambda *_: (write(kind='farewell'), sys.exit(0)))\n" + FOREVER,
        )
        watch = Watch(KeyboardInterrupt(), until=(stubborn, gentle))
        with pytest.raises(KeyboardInterrupt):
            run_jobs([stubborn, gentle], watch=watch)
        assert 1.5 < time.monotonic() - watch.raised_at < 15
        assert len(pids_in(stubborn)) == 2
        assert not any(is_running(pid) for pid in pids_in(stubborn) + pids_in(gentle))
        assert kinds(gentle)[-1] == "farewell", "it was asked before it was killed"

    @posix_only
    @pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
    @pytest.mark.sweep
    def test_a_signal_to_the_launcher_ends_all(self, make_job: MakeJob, tmp_path: Path, name: str) -> None:
        body = IGNORE_SIGTERM + "spawn()\n" if name == "SIGINT" else "spawn()\n"
        job = make_job("a", body + FOREVER)
        launcher = tmp_path / "launcher.py"
        launcher.write_text(LAUNCHER.format(job=job), encoding="utf-8")
        root = Path(processes.__file__).parents[2]
        process = subprocess.Popen([sys.executable, str(launcher)], cwd=root, env={**os.environ, "PYTHONPATH": "."})
        try:
            wait_for(lambda: "step" in kinds(job))
            process.send_signal(signal.Signals[name])
            if name == "SIGINT":  # and again, as an impatient person does
                time.sleep(0.3)
                process.send_signal(signal.SIGINT)
            code = process.wait(timeout=20)
        finally:
            process.kill()
            process.wait()
        assert code == (41 if name == "SIGINT" else 42)
        assert len(pids_in(job)) == 2
        assert not any(is_running(pid) for pid in pids_in(job))


LAUNCHER = """
import signal, sys
from pathlib import Path, PosixPath
from port.training.jobs import Job
from port.training.processes import Interrupted, run_jobs, terminate_on_signal

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
signal.signal(signal.SIGHUP, signal.SIG_DFL)
try:
    with terminate_on_signal():
        run_jobs([{job!r}])
except Interrupted:
    sys.exit(42)
except KeyboardInterrupt:
    sys.exit(41)
"""


def wait_for(happened: Callable[[], bool], seconds: float = 10) -> None:
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


class TestNothingIsLeft:
    @posix_only
    def test_workers_of_a_killed_trainer(self, make_job: MakeJob) -> None:
        job = make_job("a", "spawn()\nspawn()\nos.kill(os.getpid(), signal.SIGKILL)")
        with pytest.raises(TrainerDied, match="SIGKILL"):
            run_jobs([job])
        assert len(pids_in(job)) == 3
        assert not any(is_running(pid) for pid in pids_in(job))

    def test_workers_of_a_trainer_that_has_finished_before_the_next_begins(self, make_job: MakeJob) -> None:
        leaving = make_job("leaving", "spawn()\nspawn(start_new_session=True)")
        following = make_job("following", STEPS.format(seconds=0.2), alone=True)
        running: list[bool] = []

        def watch(rows: list[Progress]) -> None:
            if rows[1].state == "running":
                running.extend(is_running(pid) for pid in pids_in(leaving))

        run_jobs([leaving, following], watch=watch, poll_seconds=0.02)
        assert len(pids_in(leaving)) == 3
        assert running
        assert not any(running)

    def test_workers_beside_a_job_that_goes_on_end_with_their_own(self, make_job: MakeJob) -> None:
        leaving = make_job("leaving", "spawn()")
        going_on = make_job("going on", "spawn()\n" + STEPS.format(seconds=0.6))
        checked: list[tuple[bool, ...]] = []

        def watch(rows: list[Progress]) -> None:
            if [row.state for row in rows] == ["done", "running"] and len(pids_in(going_on)) == 2:
                checked.append(tuple(is_running(pid) for pid in pids_in(leaving)[1:] + pids_in(going_on)))

        run_jobs([leaving, going_on], watch=watch, poll_seconds=0.02)
        assert (False, True, True) in checked, "only its own worker was to be ended"
        assert "end" in kinds(going_on)


class TestTerminateOnSignal:
    def test_it_raises_in_the_main_thread_and_puts_the_old_handler_back(self) -> None:
        before = signal.getsignal(signal.SIGTERM)
        with pytest.raises(Interrupted, match="ended by SIGTERM") as caught, terminate_on_signal():
            signal.raise_signal(signal.SIGTERM)
        assert isinstance(caught.value, KeyboardInterrupt)
        assert caught.value.number == signal.SIGTERM
        assert signal.getsignal(signal.SIGTERM) is before

    @posix_only
    def test_what_is_ignored_stays_ignored(self) -> None:
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            with terminate_on_signal():
                signal.raise_signal(signal.SIGHUP)
        finally:
            signal.signal(signal.SIGHUP, before)

    def test_jobs_run_in_another_thread_too(self, make_job: MakeJob) -> None:
        job = make_job("a", STEPS.format(seconds=0))
        before = signal.getsignal(signal.SIGTERM)
        seen: list[object] = []

        def run() -> None:
            with terminate_on_signal():
                seen.append(signal.getsignal(signal.SIGTERM))
                run_jobs([job])
                seen.append("finished")

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        assert seen == [before, "finished"]


def test_one_that_records_nothing_is_told_which_lines_make_a_record(make_job: MakeJob) -> None:
    other = make_job("other", FOREVER)
    silent = make_job("silent", "")
    silent = replace(silent, command=(sys.executable, "-S", str(Path(silent.command[2]).with_name("plain.py"))))
    Path(silent.command[2]).write_text("print('trained')\n")
    with pytest.raises(UsageError) as refused:
        run_jobs([other, silent])
    said = str(refused.value)
    assert "silent finished and recorded nothing" in said
    assert "plain.py these three lines write one" in said
    for line in ("import port", "with port.Recorder() as record:", "record(step, loss=loss)"):
        assert line in said
    assert not any(is_running(pid) for pid in pids_in(other))
