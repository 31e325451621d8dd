"""Reads and writes checkpoints in several files with an index, in Hugging Face's layout."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from port.errors import BrokenWeights, UsageError
from port.moves import Box
from port.weights.metadata import Metadata
from port.weights.safetensors_files import write_safetensors
from port.weights.tensors import Checkpoint, Tensor

SUFFIX = ".index.json"
_NAME = re.compile(rf"model(-\d+-of-\d+)?\.safetensors|model\.safetensors{re.escape(SUFFIX)}")
_LARGEST_INDEX = 100_000_000  # bytes, as of a safetensors header


def open_sharded(index: Path, open_shard: Callable[[Path], Checkpoint]) -> Checkpoint:
    """Open all files that an index names, as one checkpoint.

    Args:
        index: ``model.safetensors.index.json`` or similar: ``{"weight_map": {tensor: file}}``, next to the files.
        open_shard: opens one of them.

    Raises:
        BrokenWeights: the index or a file cannot be read, or they contradict each other; everything wrong at once.
    """
    places, metadata = _content(index)
    problems: list[str] = []
    shards: dict[str, Checkpoint] = {}
    for shard in dict.fromkeys(places.values()):
        if not _is_file_name(shard):
            problems.append(f"{shard!r} is not a file name: shards must be next to the index")
            continue
        if shard.endswith(SUFFIX):
            what = "the index itself" if shard == index.name else "another index"
            problems.append(f"{shard} is {what}, not a file of tensors")
            continue
        try:
            shards[shard] = open_shard(index.parent / shard)
        except BrokenWeights as error:
            problems.append(str(error))
    holders: dict[str, list[str]] = {}
    for shard, checkpoint in shards.items():
        for name in checkpoint.tensors:
            holders.setdefault(name, []).append(shard)
    for name, shard in places.items():
        if shard in shards and shard not in holders.get(name, []):
            elsewhere = holders.get(name)
            problems.append(f"{name} is not in {shard}" + (f", but in {', '.join(elsewhere)}" if elsewhere else ""))
    problems += [f"{name} is in {' and in '.join(held)}" for name, held in holders.items() if len(held) > 1]
    problems += [
        f"{name} is in {held[0]}, but not in the index" for name, held in holders.items() if name not in places
    ]
    if problems:
        for checkpoint in shards.values():
            checkpoint.close()
        raise BrokenWeights(f"{index} contradicts its files:\n  " + "\n  ".join(problems))

    def read(name: str) -> np.ndarray:
        return shards[places[name]].read(name)

    def read_box(name: str, box: Box) -> np.ndarray:
        return shards[places[name]].read_box(name, box)

    tensors = {name: shards[shard].tensors[name] for name, shard in places.items()}
    joined = Checkpoint(index, "safetensors", tensors, read, metadata=metadata)
    if all(checkpoint.box_reader is not None for checkpoint in shards.values()):
        joined.box_reader = read_box
    for checkpoint in shards.values():
        joined.format = checkpoint.format
        joined.metadata |= checkpoint.metadata
        joined.aliases |= checkpoint.aliases
        joined.left_out |= checkpoint.left_out
    return joined


def _content(index: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The file of each tensor, and the index's metadata, as far as it is text."""
    try:
        if index.stat().st_size > _LARGEST_INDEX:
            raise ValueError(f"it has more than {_LARGEST_INDEX} bytes")
        content = json.loads(index.read_bytes().decode(), object_pairs_hook=_unique)
    except (OSError, ValueError, RecursionError) as error:
        raise BrokenWeights(f"{index} cannot be read as an index of shards: {error}") from error
    places = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(places, dict) or not all(isinstance(shard, str) for shard in places.values()):
        raise BrokenWeights(
            f"{index} is not an index of shards: expected a weight_map of each tensor's name to a file's name"
        )
    if not places:
        raise BrokenWeights(f"{index}: its weight_map is empty, so the index names no tensors. Copy it again")
    meta = content.get("metadata")
    return places, {key: text for key, text in meta.items() if isinstance(text, str)} if isinstance(meta, dict) else {}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for name, value in pairs:
        if name in content:
            raise ValueError(f"{name!r} occurs twice")
        content[name] = value
    return content


def _is_file_name(shard: str) -> bool:
    """Whether it is a plain file name on any system, without a path."""
    return shard not in ("", ".", "..") and not any(character in shard for character in "/\\:\0")


def write_sharded(folder: Path, tensors: Sequence[Tensor], limit: int, metadata: Metadata) -> None:
    """Write a folder of safetensors files of at most ``limit`` bytes of tensors each, and their index.

    A larger tensor has its own file. If one file is enough it is ``model.safetensors``, without index. Each file stores
    its format, the index all of the metadata: it is written last.

    Raises:
        UsageError: an invalid limit, or something that a safetensors file cannot store.
        BrokenWeights: a tensor that cannot be written.
        OSError: the folder cannot be written.
    """
    if limit < 1:
        raise UsageError(f"max_shard_size must be a number of bytes of at least 1, got {limit}")
    groups: list[list[Tensor]] = [[]]
    filled = 0
    for tensor in tensors:
        if groups[-1] and filled + tensor.nbytes > limit:
            groups.append([])
            filled = 0
        groups[-1].append(tensor)
        filled += tensor.nbytes
    folder.mkdir()
    if len(groups) == 1:
        write_safetensors(folder / "model.safetensors", groups[0], metadata)
        return
    formats = {key: text for key, text in metadata().items() if key == "format"}
    places: dict[str, str] = {}
    for number, group in enumerate(groups, start=1):
        shard = f"model-{number:05d}-of-{len(groups):05d}.safetensors"
        write_safetensors(folder / shard, group, lambda: formats)
        places |= {tensor.name: shard for tensor in group}
    index_metadata = {key: text for key, text in metadata().items() if key not in formats}
    index = {
        "metadata": {"total_size": sum(tensor.nbytes for tensor in tensors), **index_metadata},
        "weight_map": places,
    }
    (folder / f"model.safetensors{SUFFIX}").write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def is_of_sharded(name: str) -> bool:
    """Whether `write_sharded` writes files of this name."""
    return _NAME.fullmatch(name) is not None
