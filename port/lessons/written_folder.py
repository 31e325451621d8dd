"""A folder that `port script` wrote, as one source: its files one behind the other, each under its name."""

from __future__ import annotations

from os.path import isfile  # False of what is no path at all
from pathlib import Path

from port.lessons.source import SourceText, read_source

FILES = ("model.py", "original.py", "evaluation.py", "train_step.py", "samples.py", "train.py")
"""In the order in which a script has these things: the model, the data, the evaluation, the update, the loop."""
ACCOUNT = Path("observed", "account.txt")


def is_written_folder(path: Path) -> bool:
    """Whether `port script` wrote a trainer there."""
    return isfile(path / "train_step.py")


def read_written_folder(folder: Path, name: str | None = None) -> SourceText:
    """Its files as one source.

    Args:
        folder: that was written.
        name: of the source; the folder's path, if not given.

    Raises:
        UsageError: a file cannot be read.
    """
    lines: list[str] = []
    for file in FILES:
        if (folder / file).is_file():
            lines += [*(("", "") if lines else ()), f"# %% {file}", "", *read_source(folder / file).lines]
    return SourceText(str(folder) if name is None else name, tuple(lines))


def account_in(folder: Path) -> str | None:
    """What the original does, line by line, as `port script` prints it; None where the folder has no account."""
    path = folder / ACCOUNT
    return "\n".join(read_source(path).lines) if path.is_file() else None
