"""Folders as the Hugging Face hub has them: sharded safetensors, and beside them what a model's folder holds else."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from port.errors import BrokenWeights, UsageError
from port.weights.formats import SUFFIXES
from port.weights.metadata import Metadata
from port.weights.shards import SUFFIX, write_sharded
from port.weights.tensors import Tensor

CONFIG = "config.json"
SHARD_SIZE = 5 * 10**9
"""Bytes of a shard, where nothing is said."""
_OF_WEIGHTS = {*SUFFIXES, ".h5", ".onnx", ".gguf", ".pb", ".tflite", ".mlmodel", ".distcp"}


def files_beside(folder: Path | str) -> list[Path]:
    """What a model's folder holds beside its weights: its config, the tokenizer's files, notes.

    Raises:
        UsageError: it is no model's folder.
    """
    folder = Path(folder)
    if not (folder / CONFIG).is_file():
        raise UsageError(f"{folder} is no folder of the hub: it has no {CONFIG}")
    return sorted(path for path in folder.iterdir() if _is_beside(path))


def _is_beside(path: Path) -> bool:
    is_weights = path.suffix.lower() in _OF_WEIGHTS or path.name.endswith(SUFFIX)
    return path.is_file() and not is_weights and not path.name.startswith(".")


def write_hub(
    folder: Path, tensors: Sequence[Tensor], limit: int, metadata: Metadata, beside: Sequence[Path] = ()
) -> None:
    """Write a folder that ``transformers`` loads.

    Args:
        folder: which is not there yet.
        tensors: under the original's names.
        limit: bytes of a shard.
        metadata: what the files say of themselves.
        beside: files that are taken along as they are.

    Raises:
        BrokenWeights: one of them cannot be read; else as `write_sharded`.
        OSError: the folder cannot be written.
    """
    write_sharded(folder, tensors, limit, metadata)
    for path in beside:
        try:
            content = path.open("rb")
        except OSError as error:
            raise BrokenWeights(f"{path} cannot be taken along: {error.strerror or error}") from error
        with content, (folder / path.name).open("wb") as copy:
            shutil.copyfileobj(content, copy)


def is_hub(folder: Path) -> bool:
    """Whether a folder holds nothing but what `write_hub` writes."""
    return all(
        path.name.endswith((".safetensors", f".safetensors{SUFFIX}")) or _is_beside(path) for path in folder.iterdir()
    ) and any(path.name.endswith(".safetensors") for path in folder.iterdir())
