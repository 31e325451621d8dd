"""Outdated JAX code of tutorials from 2020 to 2022, what became of it, and its replacement.

The rows are data in ``port/guides/old_tutorials.toml``; JAX is not imported. A test runs the old and the new code of
each row with the installed versions.
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
    """Outdated code of tutorials from 2020 to 2022, and its replacement.

    Attributes:
        id: its number in the table, "T12".
        says: code of a tutorial. It runs after ``GIVEN``, as does ``today``.
        fate: whether it was removed, works with a warning, or works but is no longer idiomatic.
        happened: what changed, in a sentence, with the version, as far as changelogs or the libraries' messages say it.
        today: code that does the same without a warning. Both store their result in ``result``.
        error: if it was removed, the type of the error.
        torch: a hint for PyTorch users, if there is one.
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
"""Code that precedes every row's."""
OUTDATED: tuple[Outdated, ...] = tuple(Outdated(**{**row, "fate": Fate(row["fate"])}) for row in _TABLE["row"])
"""The rows, in order."""
