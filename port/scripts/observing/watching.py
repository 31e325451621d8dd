"""A script run under all observers, from its first line to where enough was seen."""

from __future__ import annotations

import sys
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
from port.scripts.observing.updates import Updates
from port.scripts.observing.watch import Enough

EndsEarly = Callable[[str, int], bool]
"""Whether a pass over a loader, by its name, ends behind so many batches."""


def watch_script(
    folder: Path, steps: int, command: Sequence[str], prepare: Callable[[Session, Updates], object] | None = None
) -> int:
    """Run a script for some updates and write what it does into the journal; returns the script's exit code.

    Args:
        folder: where the journal goes.
        steps: updates that are watched.
        command: FILE ARGUMENTS …, or -m MODULE ARGUMENTS …
        prepare: is given the session before the script begins.
    """

    def attach(session: Session, updates: Updates) -> EndsEarly:
        enough = Enough(session, steps)
        session.watch = enough.see
        if prepare is not None:
            prepare(session, updates)
        return enough.ends_early

    return run_observed(folder, command, attach)


def run_observed(folder: Path, command: Sequence[str], attach: Callable[[Session, Updates], EndsEarly]) -> int:
    """Run a script under all observers; returns its exit code.

    Args:
        folder: where the journal goes.
        command: FILE ARGUMENTS …, or -m MODULE ARGUMENTS …
        attach: is given the session before the script begins, and says when a pass over a loader is to end early.
    """
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
    with ExitStack() as entered:
        for mode in [*session.modes, Functions(session)]:
            entered.enter_context(mode)
        code = as_a_script(run)
    session.finish({0: "ended", FAULT: "fault"}.get(code, "failed"), code=code)
    return code
