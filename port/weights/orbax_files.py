"""Orbax checkpoint folders: a tree of arrays under ``_METADATA``, read an array at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from port.errors import BrokenWeights, UsageError
from port.weights.nesting import dotted, flat
from port.weights.tensors import Checkpoint, TensorInfo, dtypes

Result = TypeVar("Result")


def open_orbax(path: Path | str) -> Checkpoint:
    """A folder that orbax wrote, without a template for it; its dicts and lists become dotted names.

    The folder of one item (``StandardCheckpointer``), or a step's folder with one item in it (``CheckpointManager``).

    Raises:
        BrokenWeights: the folder is none of orbax's, or cannot be read.
        UsageError: there are several checkpoints in it: one of them is to be named.
    """
    import orbax.checkpoint as ocp

    path = Path(path)
    folder = _item(path)

    def metadata() -> Any:
        with ocp.PyTreeCheckpointer() as checkpointer:
            known = checkpointer.metadata(folder.absolute())
            return known.item_metadata.tree, dict(known.custom_metadata or {})

    tree, told = _attempt(path, metadata)
    leaves = {dotted(parts): (parts, leaf) for parts, leaf in flat(tree)}
    if len(leaves) < sum(1 for _ in flat(tree)):
        raise BrokenWeights(f"{path}: two arrays would have one name, for a key has a dot in it")
    tensors: dict[str, TensorInfo] = {}
    left_out: dict[str, str] = {}
    for name, (_, leaf) in leaves.items():
        if type(leaf).__name__ != "ArrayMetadata":
            left_out[name] = f"no array: {type(leaf).__name__.removesuffix('Metadata').lower()}"
            continue
        if np.dtype(leaf.dtype).name not in dtypes():
            raise BrokenWeights(f"{path}: {name} has the dtype {leaf.dtype}; readable are {', '.join(dtypes())}")
        tensors[name] = TensorInfo(tuple(leaf.shape), np.dtype(leaf.dtype))

    def read(name: str) -> np.ndarray:
        parts = leaves[name][0]
        wanted, one = _request(tree, parts, 0), ocp.RestoreArgs(restore_type=np.ndarray)

        def restore() -> Any:
            arguments = ocp.args.PyTreeRestore(
                item=wanted, restore_args=_request(tree, parts, one), partial_restore=True
            )
            with ocp.PyTreeCheckpointer() as checkpointer:
                return checkpointer.restore(folder.absolute(), args=arguments)

        value = _attempt(path, restore)
        for part in parts:
            value = value[part]
        array = np.asarray(value)
        if (array.shape, array.dtype) != (tensors[name].shape, tensors[name].dtype):
            raise BrokenWeights(
                f"{path}: {name} is {array.dtype} of shape {array.shape}, and is said to be {tensors[name]}"
            )
        return array

    texts = {key: text for key, text in told.items() if isinstance(text, str)}
    return Checkpoint(path, "orbax", tensors, read, metadata=texts, left_out=left_out)


def is_orbax(path: Path) -> bool:
    """Whether a folder, or one right inside it, is an item that orbax wrote."""
    return bool(_items(path)) or (path / "_CHECKPOINT_METADATA").exists()


def _items(path: Path) -> list[Path]:
    if (path / "_METADATA").exists():
        return [path]
    return sorted(folder.parent for folder in path.glob("*/_METADATA"))


def _item(path: Path) -> Path:
    items = _items(path)
    if len(items) > 1:
        raise UsageError(
            f"{path} holds several checkpoints: {', '.join(item.name for item in items)}. Name one of them"
        )
    if not items:
        raise BrokenWeights(f"{path} is no whole orbax checkpoint: neither it nor a folder in it has a _METADATA file")
    return items[0]


def _request(tree: Any, parts: tuple[str | int, ...], leaf: Any) -> Any:
    """The tree cut down to one leaf. Orbax restores a part of a dict; of a list it restores all or nothing."""
    if not parts:
        return _filled(tree, leaf)
    if isinstance(parts[0], int):
        return _filled(tree, leaf)
    key = next(key for key in tree if str(key) == parts[0])
    return {key: _request(tree[key], parts[1:], leaf)}


def _filled(tree: Any, leaf: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _filled(branch, leaf) for key, branch in tree.items()}
    if isinstance(tree, list | tuple):
        return [_filled(branch, leaf) for branch in tree]
    return leaf


def _attempt(path: Path, action: Callable[[], Result]) -> Result:
    """What orbax gives; what it raises, of whatever kind, as one error of ours."""
    try:
        return action()
    except Exception as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise BrokenWeights(f"{path} cannot be read as an orbax checkpoint: {reason[0]}") from error
