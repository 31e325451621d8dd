"""Record a script's run: ``WRITTEN STEPS PRECISION FILE ARGUMENTS …``, or ``-m MODULE ARGUMENTS …`` instead of FILE.

`port train` starts it as a separate process, by this file's path; environment variables say where the record and the
weights are. What the script saves goes next to the record.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def main(written: str, steps: str, precision: str, *command: str) -> int:
    """Run the script and record it; returns its exit code."""
    # port is imported from here; every other package from the environment of the script's interpreter.
    sys.path[0] = str(Path(__file__).parents[3])
    import_module("port")
    del sys.path[0]
    from port.scripts.recording.original_run import record_original

    return record_original(Path(written), int(steps), command, is_float64=precision == "float64")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
