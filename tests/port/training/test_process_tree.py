"""Each way by which a process is known to belong to a tree, tried where it is the only one that can tell."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from port.training import process_tree
from port.training.process_tree import ProcessTree

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="asks for POSIX sessions")

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-IS", "-c", "import time; time.sleep(60)"], {how})
print(child.pid, flush=True)
time.sleep({seconds})
"""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "log"
    pid = worker(tmp_path / "log")
    if is_running(pid):
        psutil.Process(pid).kill()


def start(log: Path, *, how: str, seconds: int) -> ProcessTree:
    tree = ProcessTree()
    tree.start([sys.executable, "-IS", "-c", PARENT.format(how=how, seconds=seconds)], dict(os.environ), log)
    while not log.read_text().endswith("\n") or (seconds == 0 and tree.exit_code() is None):
        time.sleep(0.01)
    return tree


def worker(log: Path) -> int:
    return int(log.read_text().split()[-1])


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_an_orphan_in_a_session_of_its_own_has_the_mark(log: Path) -> None:
    tree = start(log, how="start_new_session=True", seconds=0)
    assert is_running(worker(log))
    ProcessTree.end([tree])
    assert not is_running(worker(log))
    assert tree.ended


@posix_only
def test_an_orphan_with_an_environment_of_its_own_is_in_the_session(log: Path) -> None:
    tree = start(log, how="env={}, process_group=0", seconds=0)
    assert is_running(worker(log))
    ProcessTree.end([tree])
    assert not is_running(worker(log))


@posix_only
def test_a_worker_with_neither_has_its_parent(log: Path) -> None:
    tree = start(log, how="env={}, start_new_session=True", seconds=60)
    assert is_running(worker(log))
    ProcessTree.end([tree])
    assert not is_running(worker(log))
    assert tree.exit_code() != 0


@posix_only
def test_a_worker_that_was_asked_is_remembered_when_its_parent_has_gone(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_tree, "ASK_SECONDS", 0.2)
    deaf = "env={}, start_new_session=True, preexec_fn=lambda: __import__('signal').signal(15, 1)"
    tree = start(log, how=deaf, seconds=60)
    assert is_running(worker(log))
    ProcessTree.end([tree])
    assert not is_running(worker(log))


def test_what_has_ended_is_not_looked_for_again(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = start(log, how="", seconds=0)
    ProcessTree.end([tree])
    monkeypatch.setattr(psutil, "pids", lambda: pytest.fail("looked at all processes of the machine"))
    ProcessTree.end([tree, ProcessTree()])


def test_a_tree_does_not_end_another(log: Path, tmp_path: Path) -> None:
    other = start(tmp_path / "other", how="", seconds=60)
    tree = start(log, how="", seconds=60)
    ProcessTree.end([tree])
    assert is_running(worker(tmp_path / "other"))
    assert other.exit_code() is None
    ProcessTree.end([other])
    assert not is_running(worker(tmp_path / "other"))


def test_what_the_system_does_not_let_go_is_told(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = start(log, how="start_new_session=True", seconds=0)
    with monkeypatch.context() as patched:
        patched.setattr(process_tree, "ASK_SECONDS", 0.0)
        patched.setattr(process_tree, "KILL_SECONDS", 0.2)
        patched.setattr(psutil.Process, "terminate", lambda process: None)
        patched.setattr(psutil.Process, "kill", lambda process: None)
        with pytest.warns(UserWarning, match=rf"could not end these processes; .*\b{worker(log)}\b"):
            ProcessTree.end([tree])
