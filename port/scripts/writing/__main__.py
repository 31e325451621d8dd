"""Watch a script as `port.scripts.observing` does, then write its update in JAX, in the script's process."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from unittest.mock import patch


def main(*arguments: str) -> int:
    """Run and watch the script, and write its update; returns the script's exit code.

    Args:
        arguments: optionally ``--standalone``; FOLDER STEPS; and the script with its arguments.
    """
    standalone = arguments[:1] == ("--standalone",)
    folder, steps, *command = arguments[standalone:]
    # port is imported from here; every other package from the environment of the script's interpreter.
    sys.path[0] = str(Path(__file__).parents[3])
    import_module("port")
    del sys.path[0]
    import torch
    import torch.distributed

    from port.scripts.observing.session import Session
    from port.scripts.observing.updates import Updates
    from port.scripts.observing.watching import watch_script
    from port.scripts.writing.capture import Capture
    from port.scripts.writing.rank_batches import leaves_it_to_the_first
    from port.scripts.writing.update import write_update

    work = Path(folder)

    def prepare(session: Session, updates: Updates) -> None:
        capture = Capture(session, updates, int(steps))

        if leaves_it_to_the_first(session, capture):
            return
        script = Path(command[1] if command[0] == "-m" else command[0]).name

        def write() -> None:
            # With several processes, this one continues alone: SyncBatchNorm must not wait for the others.
            alone = patch.object(torch.distributed, "is_initialized", lambda: False)
            with alone, torch.enable_grad(), torch.autocast("cpu", enabled=False):
                write_update(work, script, capture, standalone=standalone)

        session.at_end = write

    return watch_script(work, int(steps), command, prepare)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
