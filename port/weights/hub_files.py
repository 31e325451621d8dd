"""Folders as on the Hugging Face hub: sharded safetensors, and the other files of a model's folder."""

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
"""Bytes of a shard, by default."""
_OF_WEIGHTS = {*SUFFIXES, ".h5", ".onnx", ".gguf", ".pb", ".tflite", ".mlmodel", ".distcp"}


def files_beside(folder: Path | str) -> list[Path]:
    """List the files in a model's folder beside its weights: its config, the tokenizer's files, notes.

    Raises:
        UsageError: it is not a model's folder.
    """
    folder = Path(folder)
    if not (folder / CONFIG).is_file():
        raise UsageError(f"{folder} is not a folder of the hub: it has no {CONFIG}")
    return sorted(path for path in folder.iterdir() if _is_beside(path))


def _is_beside(path: Path) -> bool:
    is_weights = path.suffix.lower() in _OF_WEIGHTS or path.name.endswith(SUFFIX)
    return path.is_file() and not is_weights and not path.name.startswith(".")


def write_hub(
    folder: Path, tensors: Sequence[Tensor], limit: int, metadata: Metadata, beside: Sequence[Path] = ()
) -> None:
    """Write a folder that ``transformers`` loads.

    Args:
        folder: must not exist.
        tensors: under the original's names.
        limit: bytes of a shard.
        metadata: the files' metadata.
        beside: files that are copied.

    Raises:
        BrokenWeights: one of these cannot be read; else as for `write_sharded`.
        OSError: the folder cannot be written.
    """
    write_sharded(folder, tensors, limit, metadata)
    for path in beside:
        try:
            content = path.open("rb")
        except OSError as error:
            raise BrokenWeights(f"{path} cannot be copied: {error.strerror or error}") from error
        with content, (folder / path.name).open("wb") as copy:
            shutil.copyfileobj(content, copy)


def is_hub(folder: Path) -> bool:
    """Whether a folder has only what `write_hub` writes."""
    return all(
        path.name.endswith((".safetensors", f".safetensors{SUFFIX}")) or _is_beside(path) for path in folder.iterdir()
    ) and any(path.name.endswith(".safetensors") for path in folder.iterdir())
