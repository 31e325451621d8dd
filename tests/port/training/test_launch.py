"""Starting the processes of one trainer: what each is told, and that none is left when one has failed.

The processes are short scripts: they note in a folder, which they are given, that they run and what they know.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from port.training import launch as launching
from port.training.launch import launch

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="asks for POSIX signals")

PROCESS = """
import json, os, signal, sys, time

folder, rank = sys.argv[1], int(os.environ["JAX_PROCESS_ID"])

def note(name, what):
    "Into a file of this process's, which is whole as soon as it is there."
    file = os.path.join(folder, f"{name}-{rank}")
    with open(file + "~", "w") as written:
        json.dump(what, written)
    os.rename(file + "~", file)

def wait_for(*files):
    while not all(os.path.exists(os.path.join(folder, file)) for file in files):
        time.sleep(0.01)

def begin():
    note("process", os.getpid())
"""
FOREVER = "time.sleep(60)\n"


class Processes:
    """A folder where the processes of a test leave their notes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def command(self, body: str, *arguments: str) -> list[str]:
        return [sys.executable, "-IS", "-c", PROCESS + body, str(self.folder), *arguments]

    def notes(self, name: str) -> dict[int, Any]:
        """What each rank has noted under a name."""
        files = [file for file in self.folder.glob(f"{name}-*") if not file.name.endswith("~")]
        return {int(file.name.rpartition("-")[2]): json.loads(file.read_text()) for file in files}

    def running(self) -> list[int]:
        """The ranks that began and still run."""
        return [rank for rank, number in sorted(self.notes("process").items()) if is_running(number)]

    def kill(self) -> None:
        for rank in self.running():
            psutil.Process(self.notes("process")[rank]).kill()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """At the end nothing may be running."""
    processes = Processes(tmp_path)
    yield processes
    left = processes.running()
    processes.kill()
    assert not left


def is_running(number: int) -> bool:
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for(happened: Callable[[], object], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


def launcher(count: int, command: list[str]) -> list[str]:
    return [sys.executable, "-m", "port.training.launch", "--processes", str(count), "--", *command]


class TestEndingWell:
    def test_each_is_told_where_the_first_listens_and_which_it_is(
        self, processes: Processes, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("INHERITED", "from above")
        monkeypatch.setenv("JAX_PROCESS_ID", "17")
        told = 'note("told", [os.environ["JAX_COORDINATOR_ADDRESS"], os.environ["INHERITED"], sys.argv[2:]])\n'
        assert launch(processes.command("begin()\n" + told, "--devices", "2"), 3) == 0

        said = processes.notes("told")
        assert sorted(said) == [0, 1, 2]
        [(address, inherited, arguments)] = {(at, above, tuple(given)) for at, above, given in said.values()}
        host, _, port = address.rpartition(":")
        assert host == "127.0.0.1"
        assert 0 < int(port) < 2**16
        assert (inherited, arguments) == ("from above", ("--devices", "2"))
        assert len(set(processes.notes("process").values())) == 3
        assert capfd.readouterr() == ("", "")

    def test_the_first_can_listen_there_and_the_others_find_it(self, processes: Processes) -> None:
        meet = """
import socket
host, port = os.environ["JAX_COORDINATOR_ADDRESS"].split(":")
if rank == 0:
    with socket.create_server((host, int(port))) as listening:
        note("listens", True)
        note("heard", [int(listening.accept()[0].recv(1)) for _ in range(2)])
else:
    wait_for("listens-0")
    socket.create_connection((host, int(port))).sendall(str(rank).encode())
"""
        assert launch(processes.command(meet), 3) == 0
        assert sorted(processes.notes("heard")[0]) == [1, 2]

    def test_the_last_one_is_waited_for(self, processes: Processes) -> None:
        body = 'if rank: wait_for("ended-0"); time.sleep(0.3)\nnote("ended", rank)\n'
        assert launch(processes.command(body), 2) == 0
        assert sorted(processes.notes("ended")) == [0, 1]


class TestFailing:
    def test_the_others_are_ended_and_its_exit_code_is_passed_on(
        self, processes: Processes, capfd: pytest.CaptureFixture[str]
    ) -> None:
        body = 'begin()\nif rank == 1: wait_for("process-0", "process-2"); sys.exit(3)\n' + FOREVER
        assert launch(processes.command(body), 3) == 3
        assert len(processes.notes("process")) == 3
        assert processes.running() == []
        assert capfd.readouterr().err == "rank 1 of 3 was the first to fail: exit code 3\n"

    @pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV"])
    def test_a_signal_is_told_by_name(self, processes: Processes, capfd: pytest.CaptureFixture[str], name: str) -> None:
        no_core = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        die = f'if rank == 2: wait_for("process-0", "process-1"); os.kill(os.getpid(), signal.{name})\n'
        assert launch(processes.command(no_core + "begin()\n" + die + FOREVER), 3) == 1
        number = int(signal.Signals[name])
        assert capfd.readouterr().err == f"rank 2 of 3 was the first to fail: signal {number} ({name})\n"
        assert processes.running() == []

    @pytest.mark.skipif(not hasattr(signal, "SIGRTMIN"), reason="asks for real-time signals")
    def test_a_signal_may_have_no_name(self, processes: Processes, capfd: pytest.CaptureFixture[str]) -> None:
        number = signal.SIGRTMIN + 1
        assert launch(processes.command(f"os.kill(os.getpid(), {number})"), 1) == 1
        assert f"rank 0 of 1 was the first to fail: signal {number}" in capfd.readouterr().err

    def test_of_several_the_one_that_was_killed_from_outside_is_named(self) -> None:
        """Those that lost it fail soon after, and may be found at the same time."""
        assert launching._first_to_fail([(0, 1), (1, -signal.SIGKILL), (2, 1)]) == (1, -signal.SIGKILL)
        assert launching._first_to_fail([(0, -signal.SIGABRT), (3, -signal.SIGTERM)]) == (3, -signal.SIGTERM)
        assert launching._first_to_fail([(1, -signal.SIGABRT), (2, 3)]) == (2, 3), "who loses another aborts"
        assert launching._first_to_fail([(1, -signal.SIGABRT), (2, -signal.SIGABRT)]) == (1, -signal.SIGABRT)

    def test_one_that_has_ended_well_is_no_failure(
        self, processes: Processes, capfd: pytest.CaptureFixture[str]
    ) -> None:
        body = 'if rank == 1: wait_for("ended-0"); sys.exit(5)\nnote("ended", rank)\n'
        assert launch(processes.command(body), 2) == 5
        assert "rank 1 of 2" in capfd.readouterr().err

    def test_the_others_are_asked_first(self, processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(launching, "ASK_SECONDS", 60.0)
        farewell = 'signal.signal(signal.SIGTERM, lambda *_: (note("farewell", rank), sys.exit(0)))\nbegin()\n'
        body = 'if rank == 0: wait_for("process-1"); sys.exit(3)\n' + farewell + FOREVER
        assert launch(processes.command(body), 2) == 3
        assert sorted(processes.notes("farewell")) == [1]

    def test_one_that_ignores_sigterm_is_killed(self, processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(launching, "ASK_SECONDS", 0.2)
        stubborn = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nbegin()\n"
        body = 'if rank == 2: wait_for("process-0", "process-1"); sys.exit(3)\n' + stubborn + FOREVER
        assert launch(processes.command(body), 3) == 3
        assert sorted(processes.notes("process")) == [0, 1]
        assert processes.running() == []

    def test_an_exception_in_the_launcher_ends_all(self, processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
        class Clock:
            monotonic = staticmethod(time.monotonic)

            @staticmethod
            def sleep(seconds: float) -> None:
                wait_for(lambda: len(processes.notes("process")) == 2)
                raise KeyboardInterrupt

        monkeypatch.setattr(launching, "time", Clock)
        with pytest.raises(KeyboardInterrupt):
            launch(processes.command("begin()\n" + FOREVER), 2)
        assert processes.running() == []

    def test_so_does_one_while_they_are_started(self, processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
        start = subprocess.Popen
        started: list[subprocess.Popen[bytes]] = []

        def interrupted(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
            if started:
                wait_for(lambda: processes.notes("process"))
                raise KeyboardInterrupt
            started.append(start(*arguments, **options))
            return started[0]

        monkeypatch.setattr(launching.subprocess, "Popen", interrupted)
        try:
            with pytest.raises(KeyboardInterrupt):
                launch(processes.command("begin()\n" + FOREVER), 2)
            assert processes.running() == []
        finally:
            processes.kill()
            started[0].wait()


class TestCommand:
    """As `python -m port.training.launch`."""

    def test_its_exit_code_is_the_first_failures(self, processes: Processes) -> None:
        command = processes.command("sys.exit(4 if sys.argv[2:] == ['--processes', '7', '--'] else 9)")
        run = subprocess.run([*launcher(2, command), "--processes", "7", "--"], capture_output=True, text=True)
        assert run.returncode == 4, "the command's own arguments are left to it"
        assert "of 2 was the first to fail: exit code 4\n" in run.stderr

    def test_sigterm_ends_all(self, processes: Processes) -> None:
        started = subprocess.Popen(launcher(3, processes.command("begin()\n" + FOREVER)))
        try:
            wait_for(lambda: len(processes.notes("process")) == 3)
            started.terminate()
            assert started.wait() == 128 + signal.SIGTERM
        finally:
            started.kill()
            started.wait()
        assert processes.running() == []

    @pytest.mark.sweep
    def test_so_does_a_second_one_of_an_impatient_person(self, processes: Processes) -> None:
        stubborn = 'signal.signal(signal.SIGTERM, lambda *_: note("asked", rank))\nbegin()\n'
        forever = "while True: time.sleep(1)\n"
        started = subprocess.Popen(launcher(2, processes.command(stubborn + forever)), stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: len(processes.notes("process")) == 2)
            started.terminate()
            wait_for(lambda: len(processes.notes("asked")) == 2)
            started.terminate()
            started.wait()
            assert processes.running() == []
        finally:
            started.kill()
            started.wait()
            processes.kill()
