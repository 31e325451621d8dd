"""Writes files and folders atomically."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import ENAMETOOLONG
from pathlib import Path
from uuid import uuid4

from port.errors import BrokenWeights, UsageError


@contextmanager
def whole(
    path: Path,
    *,
    overwrite: bool,
    may_replace: Callable[[Path], bool],
    what: str = "the weights",
    can_overwrite: bool = False,
) -> Iterator[Path]:
    """Yield a temporary path next to ``path``, to write a file or a folder to; it is renamed when the block ends.

    Readers of ``path`` find the previous contents, or all of the new; after an error, or when the process is killed,
    the previous. (A folder that replaces a folder takes two renames: between them there is nothing.)

    Args:
        path: the target.
        overwrite: whether to replace existing contents.
        may_replace: whether an existing folder is a checkpoint, and so may be replaced; may raise a UsageError that
            says why not.
        what: what is written, for error messages.
        can_overwrite: whether the user can choose ``overwrite``, for error messages.

    Raises:
        UsageError: ``path`` exists, and must not be overwritten; it is neither a file nor a folder, but a device or
            the like; it is no name that a file can have.
        BrokenWeights: ``path`` cannot be written.
    """
    try:
        _check_special(path, what)
        if not overwrite and os.path.lexists(path):
            otherwise = ", or replace it with --overwrite (overwrite=True)" if can_overwrite else ""
            raise UsageError(f"{path} is there already: choose another name{otherwise}")
        _check_folders(path, may_replace, what)
    except OSError as error:
        if error.errno == ENAMETOOLONG:
            raise UsageError(
                f"{what} cannot be written to {path.name[:40]}…: the name is too long. Choose a shorter one"
            ) from error
        raise BrokenWeights(f"{what} cannot be written to {path}: {error.strerror or error}") from error
    temporary = _beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        _replace(temporary, path)
    except OSError as error:
        raise BrokenWeights(f"{what} cannot be written to {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            shutil.rmtree(temporary) if temporary.is_dir() else temporary.unlink()


def _check_special(path: Path, what: str) -> None:
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UsageError(
            f"{path} is neither a file nor a folder, but a device, a pipe or a socket, which {what} may not replace: "
            "choose another name"
        )


def _check_folders(path: Path, may_replace: Callable[[Path], bool], what: str) -> None:
    if path.is_dir() and not may_replace(path):
        raise UsageError(f"{path} is a folder, and not one that {what} may replace: choose another name")
    if (file := next((above for above in path.parents if above.exists() and not above.is_dir()), None)) is not None:
        raise BrokenWeights(f"{what} cannot be written to {path}: {file} is a file, not a folder")


def _beside(path: Path) -> Path:
    """On the same disk, where renaming is atomic; hidden; no longer than any file's name may be."""
    return path.with_name(f".{path.name[:100]}.{uuid4().hex}")


def _replace(new: Path, path: Path) -> None:
    if not path.is_dir():
        os.replace(new, path)
        return
    old = _beside(path)
    os.rename(path, old)
    try:
        os.rename(new, path)
    except OSError:
        os.rename(old, path)
        raise
    old.unlink() if old.is_symlink() else shutil.rmtree(old)
