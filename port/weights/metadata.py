"""What a file says of itself, beside its tensors; some of it is known only when they have been written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import BinaryIO

import numpy as np

from port.errors import BrokenWeights
from port.weights.tensors import Checkpoint, Tensor

Metadata = Callable[[], dict[str, str]]
"""Gives the metadata: called before the tensors are written and once more behind them. Its length stays the same."""

NAME = "port.metadata"
"""The array in which msgpack and npz files have their metadata, which they have no other place for: JSON as bytes.

Flax leaves a collection that it does not know alone, and an array of numbers passes through `jax.jit`.
"""


def as_tensor(metadata: Metadata) -> list[Tensor]:
    """The metadata as a tensor, to be written last; none where there is nothing to say."""
    if not (told := metadata()):
        return []
    return [Tensor(NAME, _bytes(told).shape, np.dtype(np.uint8), lambda: _bytes(metadata()))]


def taken_out(checkpoint: Checkpoint) -> Checkpoint:
    """A checkpoint whose metadata stands among its tensors, with the metadata in its own place.

    Raises:
        BrokenWeights: it is not what `as_tensor` made.
    """
    if NAME not in checkpoint.tensors:
        return checkpoint
    try:
        told = json.loads(checkpoint.read(NAME).tobytes().decode())
        if not isinstance(told, dict) or not all(isinstance(text, str) for text in told.values()):
            raise ValueError("text by name is expected")
    except (ValueError, RecursionError) as error:
        raise BrokenWeights(f"{checkpoint.path}: its metadata ({NAME}) cannot be read: {error}") from error
    tensors = {name: info for name, info in checkpoint.tensors.items() if name != NAME}
    return replace(checkpoint, tensors=tensors, metadata=told)


def write_again(file: BinaryIO, place: int, before: bytes, now: bytes) -> None:
    """Put what is known now in the place of what was written before."""
    if len(before) != len(now):
        raise BrokenWeights(f"the metadata has {len(now)} bytes, and {len(before)} bytes were left for it")
    if before != now:
        file.seek(place)
        file.write(now)


def _bytes(told: dict[str, str]) -> np.ndarray:
    return np.frombuffer(json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode(), np.uint8)
