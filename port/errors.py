"""Every error that a user can meet, by name.

Each message says what was expected, what came, where, and what to do next. The command line prints the
message alone and exits with the error's ``exit_code``; a library caller catches ``PortError`` or the name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import SequenceMatcher
from pathlib import Path


def described(thing: object) -> str:
    """What came instead of what was expected, for a message: its class, or that it is one itself."""
    if isinstance(thing, type):
        return f"the class {thing.__qualname__} (give an instance of it)"
    return type(thing).__qualname__


class PortError(Exception):
    """The base of all errors below."""

    exit_code = 2


class UsageError(PortError, ValueError):
    """An option or an argument that cannot be right."""


@contextmanager
def explained(why: str) -> Iterator[None]:
    """Within it, whatever a user's code raises becomes a sentence: why, and the error's class and message.

    Raises:
        UsageError: something was raised that is no error of this file's.
    """
    try:
        yield
    except PortError:
        raise
    except Exception as error:
        raise UsageError(f"{why}: {type(error).__name__}: {error}") from error


class UnknownChoice(UsageError):
    """A name that is not among the names there are; lists them, the nearest first."""

    def __init__(self, what: str, given: str, choices: Iterable[str]) -> None:
        nearest_first = sorted(choices, key=lambda choice: -SequenceMatcher(None, given, choice).ratio())
        super().__init__(f"unknown {what} {given!r}; there are: {', '.join(nearest_first)}")


class MissingExtra(UsageError, ModuleNotFoundError):
    """A command or function needs packages of an extra that is not installed.

    Attributes:
        packages: those that are missing, as they are imported.
    """

    def __init__(self, who: str, packages: Sequence[str], command: str) -> None:
        verb = "is" if len(packages) == 1 else "are"
        super().__init__(f"{who} needs {', '.join(packages)}, which {verb} not installed here: {command}")
        self.packages = tuple(packages)


class MissingData(PortError):
    """A dataset's files are not where they were looked for."""


class FolderExists(UsageError):
    """A run folder, or a record, would have been overwritten."""


class BrokenRecord(PortError):
    """A record that cannot be read; names the file and the line."""

    def __init__(self, path: Path | str, line: int | None, why: str) -> None:
        place = f"{path}, line {line}" if line is not None else str(path)
        super().__init__(f"{place}: {why}")


class WeightsMismatch(PortError):
    """Weights that do not fit the model: everything wrong, in one message."""


class BrokenWeights(PortError):
    """A weights file that cannot be read."""


class NoInitialValue(PortError):
    """A new model was asked for, and nothing tells how one of its parameters starts."""


class NoPair(PortError):
    """A module that no pair speaks of."""


class NoLauncher(UsageError):
    """Something that only ``port train`` knows was asked for outside of it, and no path was given."""


class TrainerDied(PortError):
    """A trainer ended by itself, without finishing; carries its last lines.

    Where the trainer itself said that it was used wrongly (its exit code was 2), so does this.
    """

    def __init__(self, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = 2 if code == 2 else 3


class ScriptFailed(PortError):
    """A user's script that was run under observation failed by itself.

    Attributes:
        printed: what it had printed, its own traceback at the end.
    """

    exit_code = 3

    def __init__(self, printed: str, code: int, command: str, folder: Path) -> None:
        self.printed = printed
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        super().__init__(f"the script failed by itself ({how}), run as `{command}` in {folder}")
