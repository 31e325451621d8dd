"""Record a script's run: ``WRITTEN STEPS PRECISION FILE ARGUMENTS …``, or ``-m MODULE ARGUMENTS …`` in FILE's place.

Started by `port train` as a process of its own, by this file's path, which says by its environment where the record
and the weights are. Beside the record goes what the script saves.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def main(written: str, steps: str, precision: str, *command: str) -> int:
    """Run and record; returns the script's exit code."""
    # port is imported from here; every other package from the environment of the interpreter that runs the script.
    sys.path[0] = str(Path(__file__).parents[3])
    import_module("port")
    del sys.path[0]
    from port.scripts.recording.original_run import record_original

    return record_original(Path(written), int(steps), command, is_float64=precision == "float64")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
