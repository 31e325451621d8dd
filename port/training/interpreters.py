"""Checks the Python interpreter of a side: whether it runs, and has the packages that its side imports."""

from __future__ import annotations

import shutil
import subprocess
import sys

from port.errors import UsageError
from port.version import __version__

SECONDS = 120.0
"""Seconds that an interpreter may take to answer."""


def check_may_run(python: str) -> None:
    """Check that an interpreter exists and is executable.

    Raises:
        UsageError: it does not exist.
    """
    if shutil.which(python) is None:
        raise UsageError(f"there is no Python {python} that may be run")


def check_has_port(python: str) -> None:
    """Check that an interpreter's ``port`` has this version.

    A script that records itself imports port from its own environment, and the verdict reads what both sides wrote.

    Raises:
        UsageError: the interpreter does not exist, has no port, or another version of it.
    """
    if python == sys.executable:
        return
    to_do = f"install port {__version__} in its environment, as in this one"
    version, problem = _answer(python, "from port.version import __version__; print(__version__)")
    if problem:
        raise UsageError(f"{python} has no port, which records its side ({problem}): {to_do}")
    if version != __version__:
        raise UsageError(f"{python} has port {version}, and this is port {__version__}; both need the same: {to_do}")


def check_has_packages(python: str, packages: tuple[str, ...], why: str) -> None:
    """Check that an interpreter finds packages, without importing them.

    Args:
        python: the interpreter.
        packages: their import names.
        why: what needs them, and what to do without them.

    Raises:
        UsageError: the interpreter does not exist, or lacks a package.
    """
    if python == sys.executable:
        return
    find = f"from importlib.util import find_spec; print(*[name for name in {packages!r} if not find_spec(name)])"
    missing, problem = _answer(python, find)
    if problem:
        raise UsageError(f"{python} did not list its packages: {problem}")
    if missing:
        raise UsageError(f"{python} has no {', '.join(missing.split())}: {why}")


def _answer(python: str, code: str) -> tuple[str, str]:
    """Run code in an interpreter; return what it prints, and the last line of its errors."""
    check_may_run(python)
    # -P: do not import a folder named port from the current directory.
    command = [python, "-P", "-c", code]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)
    if done.returncode:
        return "", (done.stderr.strip().splitlines() or [f"it ended with exit code {done.returncode}"])[-1]
    return done.stdout.strip(), ""
