"""Refuses empty arguments: an empty path would be the current folder."""

from __future__ import annotations

import re
from collections.abc import Sequence

from port.errors import UsageError


def refuse_empty(command: str, arguments: Sequence[str]) -> None:
    """Check that no argument of a command, and no option's value, is empty.

    Raises:
        UsageError: one is, as an unset variable of a shell makes it.
    """
    for place, argument in enumerate(arguments):
        if (option := re.fullmatch(r"(--?[\w-]+)=", argument)) is not None:
            before = option[1]
        elif argument == "":
            before = arguments[place - 1] if place else ""
        else:
            continue
        where = f"after {before}" if before else "at the beginning"
        raise UsageError(
            f"port {command}: an argument is empty, {where}, where a path or a value was expected. Is a variable of "
            "the shell not set?"
        )
