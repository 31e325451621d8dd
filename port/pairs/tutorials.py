"""An old tutorial says, today: the table of code from 2020 to 2022, what became of it, and what to write in its place.

The rows are data, in ``port/guides/old_tutorials.toml``; nothing of JAX is imported. Their test runs each one, old and
new, with what is installed.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files


class Fate(StrEnum):
    """What the old code does today."""

    GONE = "gone"
    WARNS = "warns"
    WORKS = "works, but"


@dataclass(frozen=True)
class Outdated:
    """One thing that tutorials of 2020 to 2022 say, and the libraries of today say otherwise.

    Attributes:
        id: its number in the table, "T12".
        says: code as a tutorial has it. It runs behind ``GIVEN``, as ``today`` does.
        fate: whether it is gone, gives a warning and the same result, or gives the same result and is merely no longer
            how it is said.
        happened: in a sentence, since which version, as far as the changelogs or the libraries' own messages say it.
        today: code that does the same, without a warning. Both leave what they find in ``result``.
        error: of what is gone, the kind of error that one sees.
        torch: what helps one who comes from PyTorch, if anything does.
    """

    id: str
    says: str
    fate: Fate
    happened: str
    today: str
    error: str = ""
    torch: str = ""


_TABLE = tomllib.loads((files("port") / "guides" / "old_tutorials.toml").read_text("utf-8"))

GIVEN: str = _TABLE["given"]
"""What stands before the code of every row."""
OUTDATED: tuple[Outdated, ...] = tuple(Outdated(**{**row, "fate": Fate(row["fate"])}) for row in _TABLE["row"])
"""The rows, in order."""
