"""Finds out which of a trainer's ranks failed, and which one hangs."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil

from port.errors import UsageError
from port.records.heartbeat import Beat, read_beats
from port.records.recorder import RECORD_VARIABLE
from port.training.signals import how_it_ended

TORCHRUN = r"torch/distributed/elastic/multiprocessing/api\.py:\d+"
KILLED = -9  # the exit code of a process that SIGKILL ended
STACK_SECONDS = 0.5  # for a rank to write its stack into the log


def first_to_fail(printed: str) -> str | None:
    """The sentence that names the rank that failed first, from a launcher's output; None if none did."""
    # jax's coordinator, when a process does not answer: it ends the others, which are not the cause.
    silent = re.findall(r"stopped sending heartbeats\):\s*\n((?:\d+\s*\n)+)", printed)
    if silent:
        return f"{_ranks([int(rank) for rank in silent[-1].split()])} stopped responding: killed, or it hangs"
    ours = re.findall(r"^rank \d+ of \d+ was the first to fail: .+$", printed, re.MULTILINE)
    if ours:
        return str(ours[-1])
    found = _in_torchruns_table(printed)
    return None if found is None else f"rank {found[0]} was the first to fail: {how_it_ended(found[1])}"


def exit_code_of_rank(printed: str) -> int | None:
    """The exit code of the rank that failed first: torchrun's own is 1, whatever the rank's."""
    found = _in_torchruns_table(printed)
    return None if found is None else found[1]


def _in_torchruns_table(printed: str) -> tuple[int, int] | None:
    """The first rank to fail, and its exit code (negative for a signal), from the last table that torchrun printed.

    torchrun looks every 100 ms. Of ranks that it finds dead together its root cause is the one with the least number;
    but if one was killed, the others only lost it. torchrun itself kills only ranks that it has sent another signal.
    """
    others, is_there, root = printed.rpartition("Failures:\n")[2].partition("Root Cause")
    failed = re.findall(r"rank\s*: (\d+) .*?exitcode\s*: (-?\d+) \(pid: (\d+)\)", f"{root}{others}", re.DOTALL)
    if not is_there or not failed:
        return None
    ended = set(re.findall(r"Sending process (\d+) closing signal", printed))
    killed = [each for each in failed if int(each[1]) == KILLED and each[2] not in ended]
    rank, code, _ = (killed or failed)[0]
    return int(rank), int(code)


def without_the_launcher(printed: str) -> str:
    """The output of the ranks: without torchrun's messages, and without ranks that only lost the first."""
    torchruns = re.search(rf"^[WE]\d{{4}} .*{TORCHRUN}\] (Sending process|failed \(exitcode)", printed, re.MULTILINE)
    if not torchruns:
        return printed
    first = _in_torchruns_table(printed)
    lines = printed[: torchruns.start()].rstrip("\r\n").split("\n")
    others = re.compile(rf"\[rank(?!{first[0]}\])\d+\]:") if first else re.compile(r"(?!)")
    return "\n".join(line for line in lines if not others.match(line))


def where_they_hang(record: Path) -> str:
    """Describe a trainer's ranks that make no more steps, for the user; their stacks go into the log."""
    beats = read_beats(record)
    if not beats:
        return "none of its ranks is in a step"
    _ask_for_stacks(beats, record)
    stopped = [beat.rank for beat in beats if _status(beat) == psutil.STATUS_STOPPED]
    if stopped:
        return f"{_ranks(stopped)} been stopped (SIGSTOP)"
    last = min(beat.step for beat in beats)
    behind = [beat.rank for beat in beats if beat.step == last]
    began = f"begun step {last}" if last >= 0 else "begun no step"
    if len(behind) == len(beats):
        return f"every rank has {began}" if len(beats) > 1 else f"it has {began}"
    ahead = max(beat.step for beat in beats)
    return f"{_ranks(behind)} {began}, the others step {ahead}"


def check_nobody_is_there(record: Path) -> None:
    """Check that no ranks of an earlier run still write to this record, as when only their launcher was killed.

    Raises:
        UsageError: they do; names the processes.
    """
    alive = [str(beat.process) for beat in read_beats(record) if _is_alive(beat, record)]
    if alive:
        raise UsageError(
            f"an earlier run still writes to {record}: end its processes first (kill {' '.join(alive)}), or wait until "
            "it ends"
        )


def forget_beats(record: Path) -> None:
    """Remove the heartbeat files of an earlier run's ranks."""
    for path in record.parent.glob(f"{record.stem}.rank-*"):
        path.unlink(missing_ok=True)


def _ask_for_stacks(beats: list[Beat], record: Path) -> None:
    if not hasattr(signal, "SIGUSR1"):
        return
    for beat in beats:
        if _is_alive(beat, record):
            with suppress(OSError):
                os.kill(beat.process, signal.SIGUSR1)
    time.sleep(STACK_SECONDS)


def _is_alive(beat: Beat, record: Path) -> bool:
    """Whether that rank is alive: another program may have a dead rank's process number."""
    with suppress(psutil.Error, OSError):
        process = psutil.Process(beat.process)
        is_dead = process.status() == psutil.STATUS_ZOMBIE
        return not is_dead and bool(process.environ().get(RECORD_VARIABLE) == str(record))
    return False


def _status(beat: Beat) -> str | None:
    with suppress(psutil.Error):
        return str(psutil.Process(beat.process).status())
    return None


def _ranks(ranks: list[int]) -> str:
    return f"rank {ranks[0]} has" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))} have"
