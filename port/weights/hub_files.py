"""Folders as on the Hugging Face hub: sharded safetensors, and the other files of a model's folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from port.errors import BrokenWeights, UsageError
from port.weights.formats import SUFFIXES
from port.weights.metadata import Metadata
from port.weights.shards import SUFFIX, is_of_sharded, write_sharded
from port.weights.tensors import Tensor

CONFIG = "config.json"
SHARD_SIZE = 5 * 10**9
"""Bytes of a shard, by default."""
_OF_WEIGHTS = {*SUFFIXES, ".h5", ".onnx", ".gguf", ".pb", ".tflite", ".mlmodel", ".distcp"}
_OF_A_MODEL = (
    "*config.json",
    "*tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "*.spm",
    "*.tiktoken",
    "*bpe.model",
    "spiece.model",
    "tekken.json",
    "normalizer.json",
    "chat_template.*",
    "modeling_*.py",
    "configuration_*.py",
    "tokenization_*.py",
    "*processing_*.py",
    "README*",
    "LICENSE*",
    "NOTICE*",
    ".gitattributes",
)
"""Names of the other files of a model on the hub."""


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
    copy_beside(folder, beside)


def copy_beside(folder: Path, files: Iterable[Path]) -> None:
    """Copy files into a folder.

    Raises:
        BrokenWeights: one of them cannot be read.
        OSError: the folder cannot be written.
    """
    for path in files:
        try:
            content = path.open("rb")
        except OSError as error:
            raise BrokenWeights(f"{path} cannot be copied: {error.strerror or error}") from error
        with content, (folder / path.name).open("wb") as copy:
            shutil.copyfileobj(content, copy)


def foreign_to_hub(folder: Path, beside: Iterable[Path] = ()) -> list[str]:
    """Names in a folder that no model's folder has: replacing the folder would lose them.

    Args:
        folder: holds weights that may be replaced.
        beside: files that are copied over those of the same name.
    """
    copied = {path.name for path in beside}
    return sorted(
        path.name
        for path in folder.iterdir()
        if not (path.is_file() and (is_of_sharded(path.name) or path.name in copied or _is_kept(path)))
    )


def kept_beside(folder: Path, beside: Iterable[Path] = ()) -> list[Path]:
    """The files in a model's folder that stay when its weights are replaced, except those that ``beside`` replaces."""
    copied = {path.name for path in beside}
    return sorted(path for path in folder.iterdir() if path.is_file() and _is_kept(path) and path.name not in copied)


def _is_kept(path: Path) -> bool:
    return any(fnmatchcase(path.name, pattern) for pattern in _OF_A_MODEL)
