"""Watch a script: ``FOLDER STEPS FILE ARGUMENTS …``, or ``FOLDER STEPS -m MODULE ARGUMENTS …``.

`port.scripts.observe` starts it as a separate process, by this file's path, so that no file in the user's current
folder shadows a package.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def main(folder: str, steps: str, *command: str) -> int:
    """Run the script and watch it; returns its exit code."""
    # port is imported from here; every other package from the environment of the script's interpreter.
    sys.path[0] = str(Path(__file__).parents[3])
    import_module("port")
    del sys.path[0]
    from port.scripts.observing.watching import watch_script

    return watch_script(Path(folder), int(steps), command)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
