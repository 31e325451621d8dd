"""Reads Orbax checkpoint folders: a tree of arrays under ``_METADATA``, an array at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from port.errors import BrokenWeights, UsageError
from port.extras import naming_extras
from port.moves import Box
from port.moves.boxes import shape_of, whole
from port.weights.memory import Memory
from port.weights.nesting import dotted, flat
from port.weights.orbax_damage import check_files, damage, quiet
from port.weights.tensors import Checkpoint, TensorInfo, dtypes

Result = TypeVar("Result")


@naming_extras("an Orbax checkpoint")
def open_orbax(path: Path | str) -> Checkpoint:
    """Open a folder that orbax wrote, without a template; its dicts and lists become dotted names.

    It is the folder of one item (``StandardCheckpointer``), or a step's folder with one item (``CheckpointManager``).

    Raises:
        BrokenWeights: the folder is not orbax's, or cannot be read.
        UsageError: there are several checkpoints in it: one must be named.
    """
    import orbax.checkpoint as ocp

    path = Path(path)
    folder = _item(path)

    check_files(path, folder)

    def metadata() -> Any:
        with ocp.PyTreeCheckpointer() as checkpointer:
            with quiet():
                known = checkpointer.metadata(folder.absolute())
            item = known.item_metadata
            if item is None:  # it has only logged why: this raises it
                item = ocp.PyTreeCheckpointHandler().metadata(folder.absolute())
            return item.tree, item.use_zarr3, dict(known.custom_metadata or {})

    tree, use_zarr3, custom_metadata = _attempt(path, metadata)
    leaves = {dotted(parts): leaf for parts, leaf in flat(tree)}
    if len(leaves) < sum(1 for _ in flat(tree)):
        raise BrokenWeights(f"{path}: two arrays would have one name, for a key has a dot in it")
    tensors: dict[str, TensorInfo] = {}
    left_out: dict[str, str] = {}
    for name, leaf in leaves.items():
        if type(leaf).__name__ != "ArrayMetadata":
            left_out[name] = f"not an array: {type(leaf).__name__.removesuffix('Metadata').lower()}"
            continue
        if np.dtype(leaf.dtype).name not in dtypes():
            raise BrokenWeights(f"{path}: {name} has the dtype {leaf.dtype}; readable are {', '.join(dtypes())}")
        tensors[name] = TensorInfo(tuple(leaf.shape), np.dtype(leaf.dtype))

    array_of = _reader(folder.absolute(), use_zarr3)

    def read_box(name: str, box: Box) -> np.ndarray:
        return _attempt(path, lambda: array_of(leaves[name].name, box))

    def read(name: str) -> np.ndarray:
        array = _attempt(path, lambda: array_of(leaves[name].name, None))
        if (array.shape, array.dtype) != (tensors[name].shape, tensors[name].dtype):
            raise BrokenWeights(
                f"{path}: {name} is {array.dtype} of shape {array.shape}, but is declared as {tensors[name]}"
            )
        return array

    texts = {key: text for key, text in custom_metadata.items() if isinstance(text, str)}
    return Checkpoint(path, "orbax", tensors, read, metadata=texts, left_out=left_out, box_reader=read_box)


def is_orbax(path: Path) -> bool:
    """Whether a folder, or one directly inside it, is an item that orbax wrote."""
    return bool(_items(path)) or (path / "_CHECKPOINT_METADATA").exists()


def foreign_to_orbax(folder: Path) -> list[str]:
    """Names in a folder of orbax that orbax does not write: replacing the folder would lose them."""
    return sorted(path.name for path in folder.iterdir() if not _is_of_orbax(path))


def _is_of_orbax(path: Path) -> bool:
    if path.is_dir():
        is_known = path.name in ("d", "array_metadatas", "descriptor") or path.name.startswith("ocdbt.process_")
        return is_known or any((path / name).exists() for name in ("_METADATA", ".zarray", "zarr.json", "metadata"))
    return path.name in _FILES


ITEM, STEP = "_METADATA", "_CHECKPOINT_METADATA"
"""The files that describe the tree of an item, and the whole checkpoint."""
_FILES = (
    ITEM,
    STEP,
    "_sharding",
    "_strings.json",
    "checkpoint",
    "commit_success.txt",
    "manifest.ocdbt",
)


def _items(path: Path) -> list[Path]:
    if (path / "_METADATA").exists():
        return [path]
    return sorted(folder.parent for folder in path.glob("*/_METADATA"))


def _item(path: Path) -> Path:
    items = _items(path)
    if len(items) > 1:
        raise UsageError(f"{path} has several checkpoints: {', '.join(item.name for item in items)}. Name one of them")
    if not items:
        raise BrokenWeights(f"{path} is not a complete orbax checkpoint: neither it nor a folder in it has _METADATA")
    return items[0]


def _reader(folder: Path, use_zarr3: bool) -> Callable[[str, Box | None], np.ndarray]:
    """Return a function that reads an array, or a box of it, by orbax's name for it.

    `Checkpointer.restore` would search the whole tree for each. For a box, all chunks that it touches are read.
    """
    import orbax.checkpoint as ocp
    import tensorstore
    from etils import epath

    is_one_store = ocp.type_handlers.is_ocdbt_checkpoint(folder)
    context = tensorstore.Context(_FEW_AT_ONCE, ocp.type_handlers.get_ts_context(use_ocdbt=is_one_store))

    memory = Memory()

    def array_of(name: str, box: Box | None = None) -> np.ndarray:
        info = ocp.type_handlers.ParamInfo(
            name=name,
            parent_dir=epath.Path(folder),
            is_ocdbt_checkpoint=is_one_store,
            use_zarr3=use_zarr3,
            ts_context=context,
        )
        spec = ocp.type_handlers.get_json_tspec_read(info, is_one_store)
        store = tensorstore.open(tensorstore.Spec(spec), open=True, context=context).result()
        step = (store.chunk_layout.read_chunk.shape or (None,))[0] if store.rank else None
        if not step:
            return np.asarray(store.read().result())
        box = whole(store.shape) if box is None else box
        # Some rows of chunks at a time: read at once, they would all be in memory beside the array.
        array = memory.empty(shape_of(box), store.dtype.numpy_dtype)
        target = tensorstore.array(array, copy=False, write=True)
        rows, *others = box
        part = store[(slice(None), *(slice(axis.start, axis.stop) for axis in others))].translate_to[0]
        for begin in range(rows.start - rows.start % step, rows.stop, step):
            low, high = max(begin, rows.start), min(begin + step, rows.stop)
            target[low - rows.start : high - rows.start].write(part[low:high].translate_to[0]).result()
        return array

    return array_of


_FEW_AT_ONCE = {"file_io_concurrency": {"limit": 2}, "data_copy_concurrency": {"limit": 1}}
"""A tensorstore limit: what is read and unpacked at the same time is in memory at the same time."""


def _attempt(path: Path, action: Callable[[], Result]) -> Result:
    """Call orbax; convert whatever it raises to one of our errors."""
    try:
        return action()
    except Exception as error:
        raise damage(path, error) from error
