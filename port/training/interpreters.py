"""Another interpreter for a side: whether it may be run, and has what its side imports."""

from __future__ import annotations

import shutil
import subprocess
import sys

from port.errors import UsageError
from port.version import __version__

SECONDS = 120.0
"""That an interpreter may take to answer."""


def check_may_run(python: str) -> None:
    """Whether there is such an interpreter.

    Raises:
        UsageError: there is none.
    """
    if shutil.which(python) is None:
        raise UsageError(f"there is no Python {python} that may be run")


def check_has_port(python: str) -> None:
    """Whether what an interpreter imports as port is this version of it.

    A script that records itself imports port from its own environment, and the verdict reads what both have written.

    Raises:
        UsageError: there is no such interpreter, it has no port, or another version of it.
    """
    if python == sys.executable:
        return
    to_do = f"install port {__version__} into its environment, as into this one"
    version, problem = _answer(python, "from port.version import __version__; print(__version__)")
    if problem:
        raise UsageError(f"{python} has no port, by which its side is recorded ({problem}): {to_do}")
    if version != __version__:
        raise UsageError(f"{python} has port {version}, and this is port {__version__}; both sides need one: {to_do}")


def check_has_packages(python: str, packages: tuple[str, ...], why: str) -> None:
    """Whether an interpreter finds packages; none is imported.

    Args:
        python: the interpreter.
        packages: their names as they are imported.
        why: what they are needed for, and what to do without.

    Raises:
        UsageError: there is no such interpreter, or it lacks some.
    """
    if python == sys.executable:
        return
    find = f"from importlib.util import find_spec; print(*[name for name in {packages!r} if not find_spec(name)])"
    missing, problem = _answer(python, find)
    if problem:
        raise UsageError(f"{python} could not be asked for its packages: {problem}")
    if missing:
        raise UsageError(f"{python} has no {', '.join(missing.split())}: {why}")


def _answer(python: str, code: str) -> tuple[str, str]:
    """What an interpreter prints, and the last line of what it complains of."""
    check_may_run(python)
    # -P: a folder named port where the user stands is not it.
    command = [python, "-P", "-c", code]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)
    if done.returncode:
        return "", (done.stderr.strip().splitlines() or [f"it ended with exit code {done.returncode}"])[-1]
    return done.stdout.strip(), ""
