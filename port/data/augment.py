"""Random augmentation that is the same on both sides: drawn per (seed, epoch, index), on numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Augmentation = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def shift(image: np.ndarray, generator: np.random.Generator, *, padding: int) -> np.ndarray:
    """Pad with zeros and crop at a random offset: uint8 (H, W, C) → (H, W, C)."""
    height, width, _ = image.shape
    top, left = generator.integers(0, 2 * padding + 1, size=2)
    padded = np.pad(image, ((padding, padding), (padding, padding), (0, 0)))
    return padded[top : top + height, left : left + width]


def shift_and_flip(image: np.ndarray, generator: np.random.Generator, *, padding: int) -> np.ndarray:
    """`shift`, then mirror left to right with probability 1/2: uint8 (H, W, C) → (H, W, C)."""
    shifted = shift(image, generator, padding=padding)
    return shifted[:, ::-1] if generator.random() < 0.5 else shifted


class Augmented:
    """A map-style dataset of (image, label) whose images are augmented.

    The draw depends only on ``seed``, the index and its epoch: not on the worker that makes it, nor on earlier draws.
    Index the dataset with the `PlannedIndex` of a plan; a plain int means epoch 0.
    """

    def __init__(self, dataset: Any, augmentation: Augmentation, *, seed: int) -> None:
        self.dataset = dataset
        self.augmentation = augmentation
        self.seed = seed

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[np.ndarray, Any]:
        image, label = self.dataset[index]
        epoch = getattr(index, "epoch", 0)
        # A tag beside the seed keeps these draws independent of the permutation's.
        generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([self.seed, epoch, int(index), 1])))
        return np.ascontiguousarray(self.augmentation(image, generator)), label
