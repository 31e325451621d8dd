"""Run a script under all observers, from its first line until enough was seen."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import torch

from port.scripts.observing.around import watch_surroundings
from port.scripts.observing.calls import watch_modules
from port.scripts.observing.functions import Functions, watch_autograd_functions
from port.scripts.observing.kept_files import KeptFiles
from port.scripts.observing.loading import Loading
from port.scripts.observing.running import FAULT, as_a_script, run_file, run_module
from port.scripts.observing.session import Session
from port.scripts.observing.synchronised import allow_on_cpu
from port.scripts.observing.updates import Updates
from port.scripts.observing.watch import Enough
from port.scripts.ranks import ProcessRank

EndsEarly = Callable[[str, int], bool]
"""Whether a pass over the named loader ends after this many batches."""
JOURNAL = "events.jsonl"
POLL_SECONDS = 0.05
LAST_LINE = 1000
"""Size of a journal's tail that contains its last event, in bytes."""


def watch_script(
    folder: Path, steps: int, command: Sequence[str], prepare: Callable[[Session, Updates], object] | None = None
) -> int:
    """Run a script for some updates and write what it does into the journal; returns the script's exit code.

    Args:
        folder: where the journal goes.
        steps: how many updates to watch.
        command: FILE ARGUMENTS …, or -m MODULE ARGUMENTS …
        prepare: called with the session before the script begins.
    """

    def attach(session: Session, updates: Updates) -> EndsEarly:
        enough = Enough(session, steps)
        session.watch = enough.see
        if not ProcessRank.of_this_process().is_first:
            session.at_end = partial(wait_for_the_first, folder / JOURNAL)
        if prepare is not None:
            prepare(session, updates)
        return enough.ends_early

    return run_observed(folder, command, attach)


def run_observed(folder: Path, command: Sequence[str], attach: Callable[[Session, Updates], EndsEarly]) -> int:
    """Run a script under all observers; returns its exit code.

    Args:
        folder: where the journal goes; every process but rank 0 writes into a subfolder.
        command: FILE ARGUMENTS …, or -m MODULE ARGUMENTS …
        attach: called with the session before the script begins; returns when a pass over a loader should end early.
    """
    rank = ProcessRank.of_this_process()
    first = folder / JOURNAL
    folder = own_folder(folder, rank)
    allow_on_cpu()
    session = Session(folder)
    watch_modules(session)
    updates = Updates(session)
    updates.watch()
    Loading(session, attach(session, updates)).watch()
    watch_autograd_functions(session)
    watch_surroundings(session)
    KeptFiles(session).watch()
    torch.compiler.set_stance("force_eager")  # a compiled model is the same model
    session.journal.write("begin", python=sys.version.split()[0], torch=torch.__version__)
    name, *arguments = command
    run = partial(run_module, arguments[0], arguments[1:]) if name == "-m" else partial(run_file, name, arguments)
    run = run if rank.is_first else partial(until_the_first_ends, run, first, session)
    with ExitStack() as entered:
        for mode in [*session.modes, Functions(session)]:
            entered.enter_context(mode)
        code = as_a_script(run)
    session.finish({0: "ended", FAULT: "fault"}.get(code, "failed"), code=code)
    return code


def own_folder(folder: Path, rank: ProcessRank) -> Path:
    """Where one of several processes writes."""
    if rank.is_first:
        return folder
    found = folder / f"rank{rank.number}"
    found.mkdir(exist_ok=True)
    return found


def has_ended(journal: Path) -> bool:
    """Whether rank 0 has seen enough and stopped taking part."""
    return b'"event": "end"' in journal.read_bytes()[-LAST_LINE:] if journal.exists() else False


def wait_for_the_first(journal: Path) -> None:
    """Wait, in any other process that has seen enough: rank 0 may still communicate with it."""
    while not has_ended(journal):
        time.sleep(POLL_SECONDS)


def until_the_first_ends(run: Callable[[], object], journal: Path, session: Session) -> None:
    """Run a script in a process other than rank 0; the end of rank 0 interrupts their collectives.

    Args:
        run: the script.
        journal: rank 0's journal.
        session: this process's session, which ends then.
    """
    try:
        run()
    except BaseException:
        if has_ended(journal):
            session.end("the first process has ended")
        raise
