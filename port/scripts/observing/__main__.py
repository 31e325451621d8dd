"""Watch a script: ``FOLDER STEPS FILE ARGUMENTS …``, or ``FOLDER STEPS -m MODULE ARGUMENTS …``.

Started by `port.scripts.observe` as a process of its own, by this file's path: so nothing that lies where the user
stands is imported in a package's place.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def main(folder: str, steps: str, *command: str) -> int:
    """Watch, and run; returns the script's exit code."""
    # port is imported from here; every other package from the environment of the interpreter that runs the script.
    sys.path[0] = str(Path(__file__).parents[3])
    import_module("port")
    del sys.path[0]
    from port.scripts.observing.watching import watch_script

    return watch_script(Path(folder), int(steps), command)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
