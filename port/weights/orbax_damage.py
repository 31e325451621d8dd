"""Finds the damaged or missing file of an Orbax folder, before orbax fails on it with messages of its own."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from port.errors import BrokenWeights

MANIFEST = "manifest.ocdbt"
_NAMED = re.compile(r'local file "([^"]+)"')
_CHUNK = re.compile(r'Error reading "([^"]+)/[^"/]+" in OCDBT database')
_REMEDY = "Copy the checkpoint again"


def check_files(path: Path, folder: Path) -> None:
    """Check what orbax reads before any array: the texts that describe the tree, and the index of the data.

    Args:
        path: the checkpoint, for messages.
        folder: the item in it.

    Raises:
        BrokenWeights: a file is missing, or is not what it should be.
    """
    metadata = _object(path, folder / "_METADATA")
    tree = metadata.get("tree_metadata")
    if not isinstance(tree, dict):
        raise _damaged(path, folder / "_METADATA", "has no tree_metadata, which lists the arrays")
    for file in {folder / "_sharding", folder / "_CHECKPOINT_METADATA", path / "_CHECKPOINT_METADATA"}:
        if file.exists():
            _object(path, file)
    if metadata.get("use_ocdbt") is True:
        _check_index(path, folder, tree, ".zarray" if metadata.get("use_zarr3") is False else "zarr.json")


def _object(path: Path, file: Path) -> dict[str, Any]:
    try:
        text = file.read_bytes().decode()
        content = json.loads(text) if text.strip() else None
    except OSError as error:
        raise _damaged(path, file, f"cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, file, "is not complete JSON") from error
    if not isinstance(content, dict):
        raise _damaged(path, file, "is not a JSON object" if text.strip() else "is empty")
    return content


def _check_index(path: Path, folder: Path, tree: dict[str, Any], suffix: str) -> None:
    """Read the description of each array, as orbax does, but without an event loop that a late error finds closed."""
    import tensorstore

    if not (folder / MANIFEST).exists():
        raise _damaged(path, folder / MANIFEST, "is missing")
    base = {"driver": "file", "path": f"{folder.absolute()}/"}  # no URL: the path may have any character
    try:
        store = tensorstore.KvStore.open({"driver": "ocdbt", "base": base}).result()
        for pending in [store.read(f"{name}/{suffix}") for name in filter(None, map(_name, tree.values()))]:
            pending.result()
    except ValueError as error:
        raise damage(path, error) from error


def _name(entry: Any) -> str:
    """Orbax's name for an array; empty for an entry that cannot be read."""
    keys = entry.get("key_metadata") if isinstance(entry, dict) else None
    if not isinstance(keys, list) or not all(isinstance(key, dict) and "key" in key for key in keys):
        return ""
    return ".".join(str(key["key"]) for key in keys)


def damage(path: Path, error: Exception) -> BrokenWeights:
    """The error for something that orbax or tensorstore raised; it names the file that they name."""
    if (chunk := _CHUNK.search(str(error))) is not None:
        return BrokenWeights(
            f"{path} is damaged: the data of {chunk[1]} is not complete. A file in d/ or in ocdbt.process_*/d/ is "
            f"missing, or was cut short. {_REMEDY}"
        )
    if (named := _NAMED.search(str(error))) is not None:
        file = Path(named[1])
        if not file.exists():
            return _damaged(path, file, "is missing")
        return _damaged(path, file, "is not as orbax wrote it" if file.stat().st_size else "is empty")
    reason = str(error).strip().splitlines() or [type(error).__name__]
    return BrokenWeights(f"{path} cannot be read as an orbax checkpoint: {reason[0]}")


def _damaged(path: Path, file: Path, why: str) -> BrokenWeights:
    for root in (path, path.absolute()):
        if file.is_relative_to(root):
            file = file.relative_to(root)
            break
    return BrokenWeights(f"{path} is damaged: its file {file} {why}. {_REMEDY}")


@contextmanager
def quiet() -> Iterator[None]:
    """Keep orbax from logging in this context: what it would say is in our errors."""
    logger = logging.getLogger("absl")
    was_disabled, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = was_disabled
