"""A process and all its descendants: started together, ended together.

What a trainer starts (a DataLoader's workers, a compiler) may outlive it, and then no parent process leads there.
So each tree's environment carries a mark that all its processes inherit, and on POSIX its root leads a
session of its own. Both are searched for until no process that has them is left.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

ASK_SECONDS = 2.0  # between SIGTERM and SIGKILL
KILL_SECONDS = 2.0  # to wait until the system has removed killed processes


class ProcessTree:
    """A process in a group of its own, and its descendants.

    Attributes:
        root: the process, once it has been started.
        log_begin: the offset in the log where its output begins.
        ended: no process of the tree runs, or none was ever started.
    """

    def __init__(self) -> None:
        self.root: psutil.Process | None = None
        self.log_begin = 0
        self.ended = True
        self._mark = f"PORT_JOB_{uuid.uuid4().hex.upper()}"  # upper case: Windows changes others to it
        self._process: subprocess.Popen[bytes] | None = None

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], log: Path, *, folder: Path | None = None
    ) -> None:
        """Start ``command``, in ``folder`` if one is passed, appending its output to ``log``.

        Raises:
            OSError: it cannot be started.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self.log_begin = output.tell()
            self.ended = False  # set before the start: if we are interrupted below, `end` searches for the mark
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**environment, self._mark: "1"},
                cwd=folder,
                **_own_group(),
            )
        with suppress(psutil.Error):  # on Windows it may be gone by now
            self.root = psutil.Process(self._process.pid)

    def exit_code(self) -> int | None:
        """The root's exit code, negative for the signal that killed it; None while it runs."""
        return None if self._process is None else self._process.poll()

    @staticmethod
    def end(trees: Sequence[ProcessTree]) -> None:
        """Ask every process of these trees to end, and kill those that still run two seconds later."""
        trees = [tree for tree in trees if not tree.ended]
        begin = time.monotonic()
        asked: set[psutil.Process] = set()
        while living := _living(trees, asked):
            waited = time.monotonic() - begin
            if waited > ASK_SECONDS + KILL_SECONDS:
                pids = ", ".join(str(process.pid) for process in living)
                warnings.warn(f"could not end these processes; look after them: {pids}", stacklevel=2)
                break
            for process in living:
                with suppress(psutil.Error):  # ended meanwhile
                    if waited > ASK_SECONDS:
                        process.kill()
                    elif process not in asked:
                        process.terminate()
            asked |= living
            time.sleep(0.02)
        for tree in trees:
            tree._reap()

    def _reap(self) -> None:
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=0.5)
        self.ended = True


def _living(trees: Sequence[ProcessTree], known: set[psutil.Process]) -> set[psutil.Process]:
    """The processes of ``known``, and of these trees, that are alive."""
    if not trees:
        return set()
    found = set(known)
    marks = {tree._mark for tree in trees}
    roots = [tree.root for tree in trees if tree.root is not None]
    # A process number is reused only once its process has been waited for and its session is empty.
    # If it was reused, the session belongs to others.
    sessions = {root.pid for root in roots if root.is_running() or not psutil.pid_exists(root.pid)}
    for root in roots:
        with suppress(psutil.Error):  # ended
            found.update((root, *root.children(recursive=True)))
    for pid in psutil.pids():
        with suppress(psutil.Error, OSError):  # ended, or its environment may not be read
            process = psutil.Process(pid)
            if _session(pid) in sessions or marks & process.environ().keys():
                found.add(process)
    return {process for process in found if _is_alive(process)}


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _session(pid: int) -> int | None:
    if sys.platform == "win32":
        return None
    return os.getsid(pid)


def _own_group() -> dict[str, Any]:
    """Options that keep the terminal's Ctrl-C from a child: only this process gets it, and ends its children."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}
