"""Files and folders that are there whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from port.errors import BrokenWeights, UsageError


@contextmanager
def whole(
    path: Path, *, overwrite: bool, may_replace: Callable[[Path], bool], what: str = "the weights"
) -> Iterator[Path]:
    """A temporary name beside ``path``, to write a file or a folder to; it becomes ``path`` when the block ends.

    Whoever looks at ``path`` finds what was there before, or all that is new; after an error, or when the process is
    killed, what was there before. (A folder that replaces a folder takes two renames: between them there is nothing.)

    Args:
        path: the target.
        overwrite: whether something may be there already.
        may_replace: says of a folder that is there whether it is a checkpoint, and so may go.
        what: is written, for messages.

    Raises:
        UsageError: something is there, and may not be overwritten.
        BrokenWeights: the place cannot be written.
    """
    if not overwrite and os.path.lexists(path):
        raise UsageError(f"{path} is there already: give another name, or say that it may be overwritten")
    if path.is_dir() and not may_replace(path):
        raise UsageError(f"{path} is a folder, and not one that {what} may replace: give another name")
    if (file := next((above for above in path.parents if above.exists() and not above.is_dir()), None)) is not None:
        raise BrokenWeights(f"{what} cannot be written to {path}: {file} is a file, and no folder")
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


def _beside(path: Path) -> Path:
    """On the same disk, where renaming is one step; hidden; no longer than any file's name may be."""
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
    shutil.rmtree(old)
