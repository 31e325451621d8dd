"""Reports unexpected errors of port itself as one message, without a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from port.errors import NoPair, PortError
from port.extras import naming_extras

Made = TypeVar("Made")


def guarded(work: Callable[[], Made], what: str, advice: str = "") -> Made:
    """Run ``work`` and return its result.

    Args:
        work: the function to run.
        what: what failed, for the message: "net:Net could not be translated".
        advice: what else to try.

    Raises:
        PortError: raised by ``work``, or made of any other error, which is a bug of port: in one line.
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
            f"{what}, because of a bug in port: {type(error).__name__}: "
            f"{lines[0][:300] if lines else 'no message'} ({Path(last.filename).name}:{last.lineno}). "
            f"{advice}please report it"
        ) from error


def said_beforehand(what: str) -> None:
    """Announce a step, without mixing it into output for programs."""
    print(f"{what} …", file=sys.stderr, flush=True)
