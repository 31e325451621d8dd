"""All errors that users can meet.

Each message says what was expected, what came, where, and what to do next. The command line prints the
message alone and exits with the error's ``exit_code``; a library caller catches ``PortError`` or the name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import SequenceMatcher
from pathlib import Path


def described(thing: object) -> str:
    """Return the class of an unexpected value, or say that it is a class itself, for an error message."""
    if isinstance(thing, type):
        return f"the class {thing.__qualname__} (give an instance of it)"
    return type(thing).__qualname__


class PortError(Exception):
    """The base of all errors below."""

    exit_code = 2


class UsageError(PortError, ValueError):
    """An invalid option or argument."""


@contextmanager
def explained(why: str) -> Iterator[None]:
    """Turn whatever a user's code raises in this context into one sentence: ``why``, the error's class, its message.

    Raises:
        UsageError: the code raised something that is not one of the errors in this file.
    """
    try:
        yield
    except PortError:
        raise
    except Exception as error:
        raise UsageError(f"{why}: {type(error).__name__}: {error}") from error


class UnknownChoice(UsageError):
    """A name that is not among the valid choices; lists the choices, closest match first.

    Of more than `FEW` choices only the closest are listed, and how many more there are.
    """

    FEW = 20
    CLOSEST = 5

    def __init__(self, what: str, name: object, choices: Iterable[str]) -> None:
        listed = sorted(choices, key=lambda choice: -SequenceMatcher(None, str(name), choice).ratio())
        more = ""
        if len(listed) > self.FEW:
            more = f" and {len(listed) - self.CLOSEST} more"
            listed = listed[: self.CLOSEST]
        super().__init__(f"unknown {what} {name!r}; there are: {', '.join(listed)}{more}")


class MissingExtra(UsageError, ModuleNotFoundError):
    """A command or function needs packages of an extra that is not installed.

    Attributes:
        packages: those that are missing, as they are imported.
    """

    def __init__(self, who: str, packages: Sequence[str], command: str) -> None:
        verb = "is" if len(packages) == 1 else "are"
        super().__init__(f"{who} needs {', '.join(packages)}, which {verb} not installed here: {command}")
        self.packages = tuple(packages)


class StepsNeeded(UsageError):
    """A schedule's rates must be tabulated, and ``steps=`` was not passed.

    Attributes:
        why: why no formula can be written.
    """

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(f"{why}: {remedy}")
        self.why = why


class MissingData(PortError):
    """A dataset's files were not found."""


class FolderExists(UsageError):
    """A run folder, a record, or another file or folder that is there would be overwritten."""


class BrokenRecord(PortError):
    """A record that cannot be read; names the file and the line."""

    def __init__(self, path: Path | str, line: int | None, why: str) -> None:
        place = f"{path}, line {line}" if line is not None else str(path)
        super().__init__(f"{place}: {why}")


class WeightsMismatch(PortError):
    """Weights that do not fit the model; lists every mismatch in one message."""


class BrokenWeights(PortError):
    """A weights file that cannot be read."""


class NoInitialValue(PortError):
    """A new model needs initial values, and nothing defines how one of its parameters is initialized."""


class NoPair(PortError):
    """A module that no pair covers."""


class NoLauncher(UsageError):
    """Something that only ``port train`` can provide was requested outside of it, and no path was passed."""


class TrainerDied(PortError):
    """A trainer exited before it finished; carries the last lines of its output.

    If the trainer exited because of bad usage (exit code 2), so does this error.
    """

    def __init__(self, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = 2 if code == 2 else 3


class ScriptFailed(PortError):
    """A user's script failed while it ran under observation.

    Attributes:
        printed: the script's output, with its traceback at the end.
    """

    exit_code = 3

    def __init__(self, printed: str, code: int, command: str, folder: Path) -> None:
        self.printed = printed
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        super().__init__(f"the script itself failed ({how}), run as `{command}` in {folder}")
