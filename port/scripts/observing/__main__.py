"""Watch a script: ``FOLDER STEPS FILE ARGUMENTS …``, or ``FOLDER STEPS -m MODULE ARGUMENTS …``.

Started by `port.scripts.observe` as a process of its own, by this file's path: so nothing that lies where the user
stands is imported in a package's place.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path


def main(folder: str, steps: str, *command: str) -> int:
    """Watch, and run; returns the script's exit code."""
    sys.path[0] = str(Path(__file__).parents[3])  # this port, in whichever environment the script runs
    import torch

    from port.scripts.observing.around import watch_surroundings
    from port.scripts.observing.calls import watch_modules
    from port.scripts.observing.functions import Functions, watch_autograd_functions
    from port.scripts.observing.kept_files import KeptFiles
    from port.scripts.observing.loading import Loading
    from port.scripts.observing.running import as_a_script, run_file, run_module
    from port.scripts.observing.session import Session
    from port.scripts.observing.updates import Updates
    from port.scripts.observing.watch import Enough

    session = Session(Path(folder))
    enough = Enough(session, int(steps))
    session.watch = enough.see
    watch_modules(session)
    Updates(session).watch()
    Loading(session, enough.ends_early).watch()
    watch_autograd_functions(session)
    watch_surroundings(session)
    KeptFiles(session).watch()
    torch.compiler.set_stance("force_eager")  # a compiled model is the same model
    session.journal.write("begin", python=sys.version.split()[0], torch=torch.__version__)
    name, *arguments = command
    run = partial(run_module, arguments[0], arguments[1:]) if name == "-m" else partial(run_file, name, arguments)
    with Functions(session):
        code = as_a_script(run)
    session.finish("ended" if code == 0 else "failed", code=code)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
