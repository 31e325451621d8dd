"""A fault of ours on the command line: one message, and no traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from port.errors import NoPair, PortError
from port.extras import naming_extras

Made = TypeVar("Made")


def guarded(work: Callable[[], Made], what: str, advice: str = "") -> Made:
    """The work's result.

    Args:
        work: to do.
        what: did not happen, where it fails: "net:Net could not be translated".
        advice: what else to try.

    Raises:
        PortError: what it was refused for, or that it failed: a fault of ours, said in one line.
    """
    try:
        with naming_extras("this command"):
            return work()
    except PortError:
        raise
    except Exception as error:
        import traceback

        last = traceback.extract_tb(error.__traceback__)[-1]
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise NoPair(
            f"{what}, and that is a fault of port's: {type(error).__name__}: "
            f"{lines[0][:300] if lines else 'no message'} ({Path(last.filename).name}:{last.lineno}). "
            f"{advice}please report it"
        ) from error


def said_beforehand(what: str) -> None:
    """Say what is to come, beside what the command prints for programs."""
    print(f"{what} …", file=sys.stderr, flush=True)
