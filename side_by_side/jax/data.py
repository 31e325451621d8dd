"""The data in JAX: a grain pipeline that follows the index plan. Alone, to see the first batches:

    python -m side_by_side.jax.data

Both sides read the same torchvision dataset and the same plan, so batch k holds the same pixels on both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grain
import numpy as np

from port.data import (
    Augmented,
    Examples,
    IndexPlan,
    PlanSource,
    Share,
    dataset_info,
    load_examples,
    padded_batches,
)
from side_by_side.config import Config

# %% What to read, and in which order


def read(config: Config, *, train: bool) -> Examples:
    """The training or the test split."""
    return load_examples(config.dataset, config.data_root, train=train, download=config.download)


def make_plan(config: Config, examples: Examples) -> IndexPlan:
    """The order of the training samples."""
    return IndexPlan(len(examples), config.batch_size, seed=config.seed, drop_last=config.drop_last)


# %% Batches to train on


def train_batches(
    config: Config, examples: Examples, plan: IndexPlan | Share, first_step: int = 0
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Epoch after epoch, without end: (epoch, images (N, H, W, C) uint8, labels (N,) int32)."""
    dataset: Any = examples
    if config.augment:
        dataset = Augmented(examples, dataset_info(config.dataset).augmentation, seed=config.seed)
    epoch, skip = divmod(first_step, plan.batches_per_epoch)
    while True:
        # A MapDataset, not grain's older DataLoader, which takes twenty times as long for a batch of 64 (D14).
        source = PlanSource(dataset, plan, epoch)
        loader = grain.MapDataset.source(source).batch(plan.batch_size)[skip:].to_iter_dataset()
        if config.workers:
            loader = loader.mp_prefetch(grain.MultiprocessingOptions(num_workers=config.workers))
        for images, labels in loader:
            yield epoch, images, labels
        epoch, skip = epoch + 1, 0


# %% Batches to evaluate on


def test_batches(config: Config, examples: Examples) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The split once: (images (N, H, W, C) uint8, labels (N,) int32, mask (N,) bool), the last batch padded."""
    yield from padded_batches(examples, config.batch_size)


# %% The first batches


def main() -> None:
    """The same samples on both sides, batch by batch."""
    config = Config()
    examples, held_out = read(config, train=True), read(config, train=False)
    plan = make_plan(config, examples)
    print(f"{len(examples)} samples to train on, {plan.batches_per_epoch} batches of {plan.batch_size} an epoch")
    for step, (epoch, images, labels) in zip(range(3), train_batches(config, examples, plan), strict=False):
        print(f"step {step}, epoch {epoch}: labels {labels[:12].tolist()} …, pixels {images.sum()} in all")
    masks = [mask for _, _, mask in test_batches(config, held_out)]
    print(f"{len(held_out)} to evaluate on, {len(masks)} batches; {masks[-1].sum()} of the last are real")


if __name__ == "__main__":
    main()
