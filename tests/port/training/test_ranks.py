"""Which rank failed, read from what a launcher prints; and which one hangs, asked of live processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from port.errors import TrainerDied, UsageError
from port.records.heartbeat import Heartbeat
from port.records.recorder import RECORD_VARIABLE
from port.training import ranks
from port.training.jobs import Job
from port.training.processes import run_jobs
from port.training.ranks import (
    check_nobody_is_there,
    exit_code_of_rank,
    first_to_fail,
    where_they_hang,
    without_the_launcher,
)

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="asks for POSIX signals")

TORCHRUN = """\
W1121 21:59:24.537000 9779 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 9797 closing signal \
SIGTERM
E1121 21:59:24.538000 9779 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: {code}) \
local_rank: 1 (pid: 9798) of binary: /usr/bin/python
Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 386, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\x20
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-21_21:59:24
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 9797)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 9797
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_21:59:24
  host      : localhost
  rank      : {rank} (local_rank: 1)
  exitcode  : {code} (pid: 9798) {name}
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""  # as torch 2.13 prints it
EXIT_7 = TORCHRUN.format(rank=1, code=7, name="")
SIGKILL = TORCHRUN.format(rank=13, code=-9, name=" (SIGKILL)")
COORDINATOR = """\
E1121 22:10:02.119 coordination_service_agent.cc:352] Polled an error from coordination service (this can be an error \
from this or another task).
jax.errors.JaxRuntimeError: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):
{tasks}
The tasks have crashed. Check the task logs for an earlier error, or scheduler events (e.g. preemption, eviction) to \
debug further.
"""


class TestWhatALauncherPrinted:
    def test_torchruns_table(self) -> None:
        assert first_to_fail(EXIT_7) == "rank 1 was the first to fail: exit code 7"
        assert exit_code_of_rank(EXIT_7) == 7

    @posix_only
    def test_torchruns_table_of_a_signal(self) -> None:
        assert first_to_fail(SIGKILL) == "rank 13 was the first to fail: signal 9 (SIGKILL)"
        assert exit_code_of_rank(SIGKILL) == -9

    def test_torchruns_table_of_a_signal_without_a_name(self) -> None:
        printed = TORCHRUN.format(rank=1, code=-35, name="")
        assert str(first_to_fail(printed)).startswith("rank 1 was the first to fail: signal 35")

    def test_the_last_of_several_tables_counts(self) -> None:
        assert first_to_fail(SIGKILL + "started again\n" + EXIT_7) == "rank 1 was the first to fail: exit code 7"
        assert exit_code_of_rank(SIGKILL + EXIT_7) == 7

    @posix_only
    def test_of_ranks_found_dead_together_the_killed_one_was_first(self) -> None:
        """The planted fault: torchrun says that rank 1 was; it has only lost rank 0."""
        killed = TORCHRUN.format(rank=1, code=1, name="").replace(
            "-15 (pid: 9797)  (SIGTERM)", "-9 (pid: 9797)  (SIGKILL)"
        )
        together = killed.replace("Sending process 9797", "Sending process 9799")
        assert first_to_fail(together) == "rank 0 was the first to fail: signal 9 (SIGKILL)"
        assert exit_code_of_rank(together) == -9
        ranks = "[rank0]: the last words\n[rank1]: RuntimeError: Connection closed by peer\n"
        assert without_the_launcher(ranks + together) == "[rank0]: the last words"
        # One that torchrun itself killed, because it ignored SIGTERM.
        assert first_to_fail(killed) == "rank 1 was the first to fail: exit code 1"

    def test_our_own_launchers_line(self) -> None:
        line = "rank 2 of 4 was the first to fail: signal 9 (SIGKILL)"
        assert first_to_fail(f"step 7\n{line}\n") == line
        assert first_to_fail("rank 0 of 4 was the first to fail: exit code 1\n" + line) == line
        assert first_to_fail(f"it said: {line}\n") is None
        assert exit_code_of_rank(line) is None, "the launcher has passed it on as its own"

    @pytest.mark.parametrize(
        ("tasks", "says"),
        [("1", "rank 1 has"), ("12", "rank 12 has"), ("1\n3", "ranks 1, 3 have")],
    )
    def test_jaxs_coordinator(self, tasks: str, says: str) -> None:
        printed = COORDINATOR.format(tasks=tasks)
        expected = f"{says} stopped responding: killed, or it hangs"
        assert first_to_fail(printed) == expected
        # It ends the others, and one of those is the first whose end the launcher sees.
        launchers = "rank 0 of 4 was the first to fail: signal 6 (SIGABRT)\n"
        assert first_to_fail(printed + launchers) == expected

    def test_none_of_them(self) -> None:
        for printed in ("", "Traceback (most recent call last):\nValueError: exit code 7, rank 1\n"):
            assert first_to_fail(printed) is None
            assert exit_code_of_rank(printed) is None


class TestWhatTheRanksPrinted:
    """Without torchrun's words behind it, and those of ranks that only lost the first."""

    def test_the_reason_is_left(self) -> None:
        ranks = "torch.jsonl, line 4: is not JSON\n[rank0]: RuntimeError: Connection closed by peer\nlast words\n"
        assert without_the_launcher(ranks + EXIT_7) == "torch.jsonl, line 4: is not JSON\nlast words"

    def test_the_first_ones_traceback_is(self) -> None:
        ranks = "[rank0]: RuntimeError: Connection closed\n[rank1]: OSError: disk full\n[rank13]: RuntimeError\n"
        assert without_the_launcher(ranks + EXIT_7) == "[rank1]: OSError: disk full"
        assert without_the_launcher(ranks + SIGKILL) == "[rank13]: RuntimeError"

    def test_where_torchrun_said_nothing_all_is(self) -> None:
        for printed in ("", "[rank0]: a\nb\n", "rank 2 of 4 was the first to fail: exit code 1\n"):
            assert without_the_launcher(printed) == printed


class TestRealLaunchers:
    """Each started as `port train` starts it; rank 1 of two fails while the other one works."""

    FAIL = """
import os, signal, sys, time

if os.environ["{rank}"] == "1":
    {fail}
time.sleep(60)
"""

    def job(self, folder: Path, launcher: tuple[str, ...], rank: str, fail: str) -> Job:
        script = folder / "script.py"
        script.write_text(self.FAIL.format(rank=rank, fail=fail))
        command = (sys.executable, "-m", *launcher, str(script))
        record, weights, log = (folder / f"torch.{suffix}" for suffix in ("jsonl", "safetensors", "log"))
        return Job("torch float64", command, {}, record, weights, log, False)

    @pytest.mark.sweep
    @pytest.mark.parametrize(
        ("fail", "says", "code"),
        [
            ("sys.exit(7)", "exit code 7", 3),
            ("sys.exit(2)", "exit code 2", 2),
            pytest.param("os.kill(os.getpid(), signal.SIGKILL)", r"signal 9 \(SIGKILL\)", 3, marks=posix_only),
        ],
    )
    def test_torchrun(self, tmp_path: Path, fail: str, says: str, code: int) -> None:
        torchrun = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2")
        match = rf"^torch float64 ended before it had finished: rank 1 was the first to fail: {says}\n"
        with pytest.raises(TrainerDied, match=match) as caught:
            run_jobs([self.job(tmp_path, torchrun, "RANK", fail)])
        assert caught.value.exit_code == code

    @posix_only
    @pytest.mark.parametrize(
        ("fail", "says", "code"),
        [
            ("sys.exit(2)", "exit code 2", 2),
            ("os.kill(os.getpid(), signal.SIGKILL)", r"signal 9 \(SIGKILL\)", 3),
        ],
    )
    def test_ours(self, tmp_path: Path, fail: str, says: str, code: int) -> None:
        ours = ("port.training.launch", "--processes", "2", "--", sys.executable, "-IS")
        match = rf"^torch float64 ended before it had finished: rank 1 of 2 was the first to fail: {says}\n"
        with pytest.raises(TrainerDied, match=match) as caught:
            run_jobs([self.job(tmp_path, ours, "JAX_PROCESS_ID", fail)])
        assert caught.value.exit_code == code


RANK = """
import faulthandler, os, signal, sys, time
from port.records.heartbeat import Heartbeat

faulthandler.register(signal.SIGUSR1, all_threads=True)

def it_stands_here():
    print("ready", flush=True)
    time.sleep(60)

with Heartbeat(sys.argv[1], int(sys.argv[2])) as beat:
    for step in range(int(sys.argv[3]) + 1):
        beat(step)
    it_stands_here()
"""

Begin = Callable[[int, int], subprocess.Popen[bytes]]


@posix_only
class TestWhereTheyHang:
    @pytest.fixture
    def record(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.delenv(RECORD_VARIABLE, raising=False)
        monkeypatch.setattr(ranks, "STACK_SECONDS", 0.0)
        return tmp_path / "torch.jsonl"

    @pytest.fixture
    def begin(self, record: Path) -> Iterator[Begin]:
        """Starts a rank, and returns when it has begun a step (−1: none)."""
        started = []

        def begin(rank: int, step: int) -> subprocess.Popen[bytes]:
            command = [sys.executable, "-c", RANK, str(record), str(rank), str(step)]
            with record.with_suffix(f".log-{rank}").open("wb") as log:
                environment = {**os.environ, RECORD_VARIABLE: str(record)}  # as the launcher tells it
                process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment)
            started.append(process)
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            return process

        yield begin
        for process in started:
            process.kill()
            process.communicate()

    def test_one_is_behind(self, record: Path, begin: Begin) -> None:
        for rank, step in ((0, 8), (1, 7), (2, 8)):
            begin(rank, step)
        assert where_they_hang(record) == "rank 1 has begun step 7, the others step 8"

    def test_several_are_behind(self, record: Path, begin: Begin) -> None:
        for rank, step in ((0, 4), (1, 4), (2, 5)):
            begin(rank, step)
        assert where_they_hang(record) == "ranks 0, 1 have begun step 4, the others step 5"

    def test_one_has_begun_none(self, record: Path, begin: Begin) -> None:
        begin(0, 0)
        begin(1, -1)
        assert where_they_hang(record) == "rank 1 has begun no step, the others step 0"

    def test_all_are_equally_far(self, record: Path, begin: Begin) -> None:
        begin(0, 12)
        assert where_they_hang(record) == "it has begun step 12"
        begin(1, 12)
        assert where_they_hang(record) == "every rank has begun step 12"

    def test_none_has_begun(self, record: Path, begin: Begin) -> None:
        assert where_they_hang(record) == "none of its ranks is in a step"
        begin(0, -1)
        assert where_they_hang(record) == "it has begun no step"
        begin(1, -1)
        assert where_they_hang(record) == "every rank has begun no step"

    def test_an_earlier_run_that_still_works_is_found(self, record: Path, begin: Begin) -> None:
        """Its launcher was killed, and it was not."""
        check_nobody_is_there(record)
        alive = begin(1, 3)
        with pytest.raises(UsageError, match=rf"an earlier run still writes to .*torch.jsonl: .*\(kill {alive.pid}\)"):
            check_nobody_is_there(record)
        check_nobody_is_there(record.with_name("jax.jsonl"))
        alive.kill()
        wait_for(lambda: psutil.Process(alive.pid).status() == psutil.STATUS_ZOMBIE)  # nobody has asked how it ended
        check_nobody_is_there(record)
        alive.wait()
        check_nobody_is_there(record)

    def test_another_program_with_its_number_is_not_taken_for_it(self, record: Path) -> None:
        Heartbeat(record, 0)(4)  # this very process, which nobody told of the record
        check_nobody_is_there(record)

    def test_the_one_that_was_stopped_is_named_wherever_the_others_are(self, record: Path, begin: Begin) -> None:
        begin(0, 3)
        stopped = begin(1, 4)
        stopped.send_signal(signal.SIGSTOP)
        wait_for(lambda: psutil.Process(stopped.pid).status() == psutil.STATUS_STOPPED)
        assert where_they_hang(record) == "rank 1 has been stopped (SIGSTOP)"
        assert stopped.poll() is None

    def test_one_that_was_killed_still_says_how_far_it_was(self, record: Path, begin: Begin) -> None:
        begin(0, 6)
        killed = begin(1, 5)
        killed.kill()
        killed.wait()
        assert where_they_hang(record) == "rank 1 has begun step 5, the others step 6"

    def test_every_rank_writes_its_stack(self, record: Path, begin: Begin) -> None:
        processes = [begin(rank, 2) for rank in range(2)]
        logs = [record.with_suffix(f".log-{rank}") for rank in range(2)]
        assert [log.read_text() for log in logs] == ["", ""]
        where_they_hang(record)
        for log in logs:
            wait_for(lambda log=log: "in <module>" in log.read_text())
            assert "in it_stands_here" in log.read_text()
        assert [process.poll() for process in processes] == [None, None], "they go on"

    def test_nobody_is_asked_and_nobody_waited_for_where_there_are_no_beats(
        self, record: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ranks.time, "sleep", lambda seconds: pytest.fail("it waits for stacks of nobody"))
        monkeypatch.setattr(ranks.os, "kill", lambda *asked: pytest.fail("it asks somebody"))
        assert where_they_hang(record) == "none of its ranks is in a step"

    def test_a_rank_that_has_ended_well_is_none_of_them(self, record: Path, begin: Begin) -> None:
        begin(0, 9)
        with Heartbeat(record, 1) as beat:
            beat(4)
        assert where_they_hang(record) == "it has begun step 9"


def wait_for(happened: Callable[[], bool], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)
