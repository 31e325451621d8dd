"""Record a script's run: ``WRITTEN STEPS PRECISION FILE ARGUMENTS …``, or ``-m MODULE ARGUMENTS …`` in FILE's place.

Started by `port train` as a process of its own, by this file's path, which says by its environment where the record
and the weights are. Beside the record goes what the script saves.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main(written: str, steps: str, precision: str, *command: str) -> int:
    """Run and record; returns the script's exit code."""
    sys.path[0] = str(Path(__file__).parents[3])  # this port, in whichever environment the script runs
    from port.records.recorder import RECORD_VARIABLE
    from port.scripts.observing.session import Session
    from port.scripts.observing.updates import Updates
    from port.scripts.observing.watching import EndsEarly, run_observed
    from port.scripts.recording.original_run import OriginalRun
    from port.scripts.watched_original import WatchedOriginal

    folder = Path(os.environ[RECORD_VARIABLE]).with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    original = WatchedOriginal.read(Path(written))

    def attach(session: Session, updates: Updates) -> EndsEarly:
        OriginalRun(session, original, Path(written), int(steps), is_float64=precision == "float64")
        return lambda name, batches: False

    return run_observed(folder, command, attach)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
