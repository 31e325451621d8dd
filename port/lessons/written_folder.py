"""A folder written by `port script`, as one source: its files one after the other, each under its name."""

from __future__ import annotations

from os.path import isfile  # returns False for invalid paths
from pathlib import Path

from port.lessons.source import SourceText, read_source

FILES = ("model.py", "original.py", "evaluation.py", "train_step.py", "samples.py", "train.py")
"""In a script's order: the model, the data, the evaluation, the update, the loop."""
ACCOUNT = Path("observed", "account.txt")


def is_written_folder(path: Path) -> bool:
    """Whether a folder holds a trainer written by `port script`."""
    return isfile(path / "train_step.py")


def read_written_folder(folder: Path, name: str | None = None) -> SourceText:
    """Read its files as one source.

    Args:
        folder: the written folder.
        name: the source's name; by default, the folder's path.

    Raises:
        UsageError: a file cannot be read.
    """
    lines: list[str] = []
    for file in FILES:
        if (folder / file).is_file():
            lines += [*(("", "") if lines else ()), f"# %% {file}", "", *read_source(folder / file).lines]
    return SourceText(str(folder) if name is None else name, tuple(lines))


def account_in(folder: Path) -> str | None:
    """Read the account of the original, line by line, as `port script` prints it; None if the folder has none."""
    path = folder / ACCOUNT
    return "\n".join(read_source(path).lines) if path.is_file() else None
