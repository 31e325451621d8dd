"""Watch a script as `port.scripts.observing` does, and at its end, in its process, write its update in JAX."""

from __future__ import annotations

import sys
from pathlib import Path


def main(folder: str, steps: str, *command: str) -> int:
    """Watch, run and write; returns the script's exit code."""
    sys.path[0] = str(Path(__file__).parents[3])
    import torch

    from port.scripts.observing.session import Session
    from port.scripts.observing.updates import Updates
    from port.scripts.observing.watching import watch_script
    from port.scripts.writing.capture import Capture
    from port.scripts.writing.update import write_update

    work = Path(folder)

    def prepare(session: Session, updates: Updates) -> None:
        capture = Capture(session, updates, int(steps))

        def write() -> None:
            with torch.enable_grad(), torch.autocast("cpu", enabled=False):
                write_update(work, Path(command[1] if command[0] == "-m" else command[0]).name, capture)

        session.at_end = write

    return watch_script(work, int(steps), command, prepare)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
