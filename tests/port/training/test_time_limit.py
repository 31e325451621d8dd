"""A trainer that makes no more steps is ended, and only such a one.

The clock is the test's: it moves on when a trainer has done, or not done, what is asked for, however busy the machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from port.errors import TrainerDied
from port.records.heartbeat import Heartbeat
from port.training import processes, ranks
from port.training.jobs import Job
from port.training.processes import run_jobs
from port.training.progress import Progress

TRAINER = """
import json, os, sys, time

folder, name = os.path.split(sys.argv[1])
record = open(sys.argv[1], "a")

def write(step):
    print(json.dumps({"kind": "step", "step": step, "loss": 2.5, "seconds": step / 10}), file=record, flush=True)

def wait_for(signal):
    while not os.path.exists(f"{sys.argv[1]}.{signal}"):
        time.sleep(0.01)

open(sys.argv[1] + ".process", "w").write(str(os.getpid()))
"""
STEPS = "for step in range({count}):\n    wait_for(step)\n    write(step)\n"
FOREVER = "time.sleep(60)\n"
LIMIT = 10.0

MakeJob = Callable[..., Job]


class Clock:
    """Stands in for ``time`` where jobs are watched; sleeping takes its real time, which it does not count."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.sleep = time.sleep

    def monotonic(self) -> float:
        return self.seconds

    def pass_by(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(processes, "time", clock)
    monkeypatch.setattr(processes, "START_SECONDS", 3 * LIMIT)
    monkeypatch.setattr(ranks, "STACK_SECONDS", 0.0)
    return clock


@pytest.fixture
def make_job(tmp_path: Path) -> Iterator[MakeJob]:
    """Makes jobs of fake trainers; at the end none of them may be running."""
    made: list[Job] = []

    def make(name: str, body: str, time_limit: float | None = LIMIT) -> Job:
        record = tmp_path / f"{name}.jsonl"
        made.append(
            Job(
                name=name,
                command=(sys.executable, "-S", "-c", TRAINER + body, str(record)),
                environment={},
                record=record,
                weights=tmp_path / f"{name}.safetensors",
                log=tmp_path / f"{name}.log",
                alone=False,
                time_limit=time_limit,
            )
        )
        return made[-1]

    yield make
    left = [number for job in made if (number := process_of(job)) and is_running(number)]
    for number in left:
        psutil.Process(number).kill()
    assert not left


def process_of(job: Job) -> int | None:
    file = job.record.with_name(job.record.name + ".process")
    return int(file.read_text() or 0) if file.exists() else None


def is_running(number: int) -> bool:
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def allow(job: Job, step: int) -> None:
    """Let a trainer make this step."""
    job.record.with_name(f"{job.record.name}.{step}").touch()


class Watch:
    """Lets the first job that runs make a step after ``seconds``, again and again, ``steps`` times; then ``after``."""

    def __init__(self, jobs: list[Job], clock: Clock, seconds: float, steps: int, after: Callable[[], object]) -> None:
        self.jobs, self.clock, self.seconds, self.steps, self.after = jobs, clock, seconds, steps, after
        self.allowed: dict[str, int] = {}
        self.rows: list[Progress] = []

    def __call__(self, rows: list[Progress]) -> None:
        self.rows = rows
        for job, row in zip(self.jobs, rows, strict=True):
            if row.state != "running":
                continue
            step = self.allowed.get(job.name, -1)
            if row.step != (step if step >= 0 else None):
                return
            if step + 1 == self.steps:
                self.after()
                return
            self.clock.pass_by(self.seconds)
            self.allowed[job.name] = step + 1
            allow(job, step + 1)
            return


def nothing() -> None:
    pass


def test_one_that_makes_steps_lives_however_long_it_takes(make_job: MakeJob, clock: Clock) -> None:
    job = make_job("torch float64", STEPS.format(count=12))
    watch = Watch([job], clock, 0.99 * LIMIT, 12, nothing)
    run_jobs([job], watch=watch, poll_seconds=0.01)
    assert clock.seconds > 10 * LIMIT
    assert (watch.rows[0].state, watch.rows[0].step) == ("done", 11)


def test_one_that_stops_is_ended_and_with_it_the_others(make_job: MakeJob, clock: Clock) -> None:
    job = make_job("jax float64", STEPS.format(count=3) + "print('before the fourth')\n" + FOREVER)
    other = make_job("other", FOREVER, time_limit=None)
    passed: list[float] = []

    def after() -> None:
        if "before" not in job.log.read_text() or process_of(other) is None:
            return
        clock.pass_by(LIMIT if not passed else 0.01)  # at the limit it lives, past it no more
        passed.append(clock.seconds)

    watch = Watch([job, other], clock, 0.99 * LIMIT, 3, after)
    with pytest.raises(TrainerDied) as caught:
        run_jobs([job, other], watch=watch, poll_seconds=0.01)
    assert len(passed) == 2
    first, *others = str(caught.value).splitlines()
    assert first.startswith("jax float64 was ended because it made no step for 10 s (--time-limit): ")
    assert others == [
        "its last lines:",
        "  before the fourth",
        f"its log: {job.log}",
        f"its record so far: {job.record}",
    ]
    assert caught.value.exit_code == 3
    assert [row.state for row in watch.rows] == ["running", "running"]
    assert not is_running(process_of(job) or 0)
    assert not is_running(process_of(other) or 0)


def test_the_first_line_has_longer(make_job: MakeJob, clock: Clock) -> None:
    job = make_job("jax float64", STEPS.format(count=2) + FOREVER)
    times: list[float] = []

    def watch(rows: list[Progress]) -> None:
        if not times:
            clock.pass_by(2.99 * LIMIT)  # of START_SECONDS
            times.append(clock.seconds)
            allow(job, 0)
        elif rows[0].step == 0:
            clock.pass_by(1.01 * LIMIT)
            times.append(clock.seconds)

    with pytest.raises(TrainerDied, match="no step for 10 s"):
        run_jobs([job], watch=watch, poll_seconds=0.01)
    assert len(times) == 2


def test_so_has_the_end(make_job: MakeJob, clock: Clock) -> None:
    """Behind its record a trainer saves its weights, and its ranks part."""
    end = "print(json.dumps({'kind': 'end', 'seconds': 3.0}), file=record, flush=True)\n"
    job = make_job("jax float64", STEPS.format(count=2) + end + "wait_for('leave')\n")

    def leave() -> None:
        if '"end"' in job.record.read_text() and clock.seconds < 2 * LIMIT:
            clock.pass_by(2.9 * LIMIT)  # of START_SECONDS
        elif clock.seconds > 2 * LIMIT:
            job.record.with_name(f"{job.record.name}.leave").touch()

    watch = Watch([job], clock, 0.5 * LIMIT, 2, leave)
    run_jobs([job], watch=watch, poll_seconds=0.01)
    assert clock.seconds > 3 * LIMIT
    assert watch.rows[0].state == "done"


def test_but_not_without_end(make_job: MakeJob, clock: Clock) -> None:
    job = make_job("jax float64", FOREVER)
    polls: list[float] = []

    def watch(rows: list[Progress]) -> None:
        polls.append(clock.seconds)
        clock.pass_by(LIMIT)

    with pytest.raises(TrainerDied, match=r"^jax float64 was ended because it made no step .*--time-limit"):
        run_jobs([job], watch=watch, poll_seconds=0.01)
    assert polls == [0, LIMIT, 2 * LIMIT, 3 * LIMIT]


def test_a_limit_above_it_holds_for_the_first_line_too(make_job: MakeJob, clock: Clock) -> None:
    job = make_job("jax float64", STEPS.format(count=1), time_limit=5 * LIMIT)
    run_jobs([job], watch=Watch([job], clock, 4.99 * LIMIT, 1, nothing), poll_seconds=0.01)
    assert clock.seconds > processes.START_SECONDS
    job = make_job("jax float32", STEPS.format(count=1), time_limit=5 * LIMIT)
    with pytest.raises(TrainerDied, match=r"jax float32 .* no step for 50 s"):
        run_jobs([job], watch=lambda rows: clock.pass_by(5.01 * LIMIT), poll_seconds=0.01)


def test_without_a_limit_it_has_all_the_time_there_is(make_job: MakeJob, clock: Clock) -> None:
    job = make_job("mine", STEPS.format(count=3), time_limit=None)
    run_jobs([job], watch=Watch([job], clock, 1e9, 3, nothing), poll_seconds=0.01)
    assert clock.seconds == 3e9


def test_one_that_waits_for_its_turn_is_not_charged(make_job: MakeJob, clock: Clock) -> None:
    jobs = [make_job(name, STEPS.format(count=6)) for name in ("first", "second")]
    watch = Watch(jobs, clock, 0.99 * LIMIT, 6, nothing)
    run_jobs(jobs, slots=1, watch=watch, poll_seconds=0.01)
    assert [row.state for row in watch.rows] == ["done", "done"]


def test_the_rank_that_is_behind_is_named(make_job: MakeJob, clock: Clock) -> None:
    root = Path(processes.__file__).parents[2]
    body = f"""
import faulthandler, signal
if hasattr(signal, "SIGUSR1"):
    faulthandler.register(signal.SIGUSR1)
sys.path.insert(0, {str(root)!r})
sys.path += {sys.path!r}
from port.records.heartbeat import Heartbeat

with Heartbeat(sys.argv[1], 0) as first, Heartbeat(sys.argv[1], 1) as second:
    first(4), second(3)
    wait_for(0)
    write(0)
    time.sleep(60)
"""
    job = make_job("torch float64", body)
    watch = Watch([job], clock, 0.99 * LIMIT, 1, lambda: clock.pass_by(2 * LIMIT))
    says = r"^torch float64 was ended .*\(--time-limit\): rank 1 has begun step 3, the others step 4\n"
    with pytest.raises(TrainerDied, match=says):
        run_jobs([job], watch=watch, poll_seconds=0.01)


class TestDefects:
    """Of `run_jobs` and `where_they_hang` as they are."""

    def test_a_resumed_run_has_as_long_for_its_first_step(self, make_job: MakeJob, clock: Clock) -> None:
        job = make_job("jax float64", "wait_for(1)\nwrite(1)\n")
        job.record.write_text('{"kind": "run"}\n{"kind": "step", "step": 0, "loss": 2.5, "seconds": 0.1}\n')
        passed: list[float] = []

        def watch(rows: list[Progress]) -> None:
            if not passed:
                clock.pass_by(2 * LIMIT)
                passed.append(clock.seconds)
                allow(job, 1)

        run_jobs([job], watch=watch, poll_seconds=0.01)

    @pytest.mark.skipif(sys.platform == "win32", reason="asks for POSIX signals")
    def test_what_has_a_dead_ranks_process_number_now_is_left_alone(self, make_job: MakeJob, clock: Clock) -> None:
        """A run before was killed, so its beat is still there; its process number may be another program's by now."""
        job = make_job("jax float64", FOREVER)
        bystander = subprocess.Popen([sys.executable, "-IS", "-c", "import time; time.sleep(60)"])
        try:
            with pytest.raises(RuntimeError), Heartbeat(job.record, 0) as beat:
                beat(57)
                raise RuntimeError
            left = beat.path.read_bytes()
            number = os.getpid().to_bytes(8, sys.byteorder)
            assert left.count(number) == 1
            beat.path.write_bytes(left.replace(number, bystander.pid.to_bytes(8, sys.byteorder)))
            with pytest.raises(TrainerDied) as caught:
                run_jobs([job], watch=lambda rows: clock.pass_by(4 * LIMIT), poll_seconds=0.01)
            assert "step 57" not in str(caught.value)
            assert bystander.poll() is None
        finally:
            bystander.kill()
            bystander.wait()
