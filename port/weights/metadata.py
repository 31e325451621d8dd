"""The metadata of a weights file, some of which is known only when its tensors have been written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import BinaryIO

import numpy as np

from port.errors import BrokenWeights
from port.weights.tensors import Checkpoint, Tensor

Metadata = Callable[[], dict[str, str]]
"""Returns the metadata: called before the tensors are written and again after them. Its length stays the same."""

NAME = "port.metadata"
"""The array that holds the metadata of msgpack and npz files, which have no other place for it: JSON as bytes.

Flax ignores a collection that it does not know, and an array of numbers passes through `jax.jit`.
"""


def as_tensor(metadata: Metadata) -> list[Tensor]:
    """The metadata as a tensor, to be written last; none if there is nothing to store."""
    if not (texts := metadata()):
        return []
    return [Tensor(NAME, _bytes(texts).shape, np.dtype(np.uint8), lambda: _bytes(metadata()))]


def taken_out(checkpoint: Checkpoint) -> Checkpoint:
    """Move a checkpoint's metadata from its tensors to ``metadata``.

    Raises:
        BrokenWeights: it was not made by `as_tensor`.
    """
    if NAME not in checkpoint.tensors:
        return checkpoint
    try:
        texts = json.loads(checkpoint.read(NAME).tobytes().decode())
        if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
            raise ValueError("text by name is expected")
    except (ValueError, RecursionError) as error:
        raise BrokenWeights(f"{checkpoint.path}: its metadata ({NAME}) cannot be read: {error}") from error
    tensors = {name: info for name, info in checkpoint.tensors.items() if name != NAME}
    return replace(checkpoint, tensors=tensors, metadata=texts)


def write_again(file: BinaryIO, place: int, before: bytes, now: bytes) -> None:
    """Overwrite the metadata with what is known now."""
    if len(before) != len(now):
        raise BrokenWeights(f"the metadata has {len(now)} bytes, but {len(before)} bytes were reserved for it")
    if before != now:
        file.seek(place)
        file.write(now)


def _bytes(texts: dict[str, str]) -> np.ndarray:
    return np.frombuffer(json.dumps(texts, ensure_ascii=False, separators=(",", ":")).encode(), np.uint8)
