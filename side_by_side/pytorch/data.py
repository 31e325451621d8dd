"""The data in PyTorch: a DataLoader that follows the index plan. Alone, to see the first batches:

    python -m side_by_side.pytorch.data

Both sides read the same torchvision dataset and the same plan, so batch k holds the same pixels on both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from port.data import (
    Augmented,
    Examples,
    IndexPlan,
    PlanSampler,
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
) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Epoch after epoch, without end: (epoch, images (N, C, H, W) uint8, labels (N,) int64)."""
    dataset: Any = examples
    if config.augment:
        dataset = Augmented(examples, dataset_info(config.dataset).augmentation, seed=config.seed)
    sampler = PlanSampler(plan)
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_sampler=sampler,
        num_workers=config.workers,
        persistent_workers=config.workers > 0,
        generator=torch.Generator(),  # a loader draws from it even where nothing is random: not from everybody's
        multiprocessing_context="spawn" if config.workers else None,  # a forked worker can deadlock (D12)
    )
    epoch, skip = divmod(first_step, plan.batches_per_epoch)
    while True:
        sampler.set_epoch(epoch, skip)
        for images, labels in loader:
            yield epoch, images.permute(0, 3, 1, 2), labels.long()  # (N, H, W, C) → (N, C, H, W)
        epoch, skip = epoch + 1, 0


# %% Batches to evaluate on


def test_batches(config: Config, examples: Examples) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """The split once: (images (N, C, H, W) uint8, labels (N,) int64, mask (N,) bool), the last batch padded."""
    for images, labels, mask in padded_batches(examples, config.batch_size):
        yield (
            torch.from_numpy(images).permute(0, 3, 1, 2),
            torch.from_numpy(labels).long(),
            torch.from_numpy(mask),
        )


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
