"""Both trainers are fed the same pixels, batch by batch."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch

from port.data import Examples, IndexPlan
from side_by_side.config import Config
from side_by_side.jax import data as jax_data
from side_by_side.pytorch import data as torch_data

Batches = list[tuple[int, np.ndarray, np.ndarray]]

CONFIG = Config(batch_size=400, seed=1)  # 3 batches of digits an epoch, and 237 samples


@pytest.fixture
def examples() -> Examples:
    return torch_data.read(CONFIG, train=True)


def of_torch(config: Config, examples: Examples, steps: int) -> Batches:
    """PyTorch's batches, as they are laid out in JAX."""
    with closing(torch_data.train_batches(config, examples, torch_data.make_plan(config, examples))) as batches:
        taken = list(islice(batches, steps))
    for _, images, labels in taken:
        assert (images.dtype, labels.dtype) == (torch.uint8, torch.int64)
        assert images.shape == (len(labels), 1, 8, 8)
    return [(epoch, images.permute(0, 2, 3, 1).numpy(), labels.numpy()) for epoch, images, labels in taken]


def of_jax(config: Config, examples: Examples, steps: int) -> Batches:
    with closing(jax_data.train_batches(config, examples, jax_data.make_plan(config, examples))) as batches:
        taken = [(epoch, images.copy(), labels.copy()) for epoch, images, labels in islice(batches, steps)]
    for _, images, labels in taken:
        assert (images.dtype, labels.dtype) == (np.uint8, np.int32)
        assert images.shape == (len(labels), 8, 8, 1)
    return taken


def same(a: Batches, b: Batches) -> bool:
    return len(a) == len(b) and all(
        epoch == other_epoch and np.array_equal(images, other_images) and np.array_equal(labels, other_labels)
        for (epoch, images, labels), (other_epoch, other_images, other_labels) in zip(a, b, strict=True)
    )


def test_both_read_the_same_examples(examples: Examples) -> None:
    for train in (True, False):
        a, b = torch_data.read(CONFIG, train=train), jax_data.read(CONFIG, train=train)
        np.testing.assert_array_equal(a.images, b.images)
        np.testing.assert_array_equal(a.labels, b.labels)
    assert torch_data.make_plan(CONFIG, examples) == jax_data.make_plan(CONFIG, examples)


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("augment", [True, False])
@pytest.mark.sweep
def test_training_batches_are_the_same(augment: bool, drop_last: bool, examples: Examples) -> None:
    config = replace(CONFIG, augment=augment, drop_last=drop_last)
    steps = 10  # three epochs and a step, or two epochs and two
    batches = of_torch(config, examples, steps)
    assert same(batches, of_jax(config, examples, steps))
    assert [epoch for epoch, *_ in batches] == [step // (3 if drop_last else 4) for step in range(steps)]

    assert not same(batches, of_jax(replace(config, seed=2), examples, steps))
    assert not same(batches, of_jax(replace(config, augment=not augment), examples, steps))
    assert not same(batches, of_jax(replace(config, drop_last=not drop_last), examples, steps))


def test_training_batches_follow_the_plan(examples: Examples) -> None:
    plan = IndexPlan(len(examples), CONFIG.batch_size, seed=CONFIG.seed)
    for step, (_, images, labels) in enumerate(of_torch(CONFIG, examples, 7)):
        np.testing.assert_array_equal(images, examples.images[plan.batch(step)])
        np.testing.assert_array_equal(labels, examples.labels[plan.batch(step)])


@pytest.mark.sweep
@pytest.mark.parametrize("batches_of", [of_torch, of_jax])
def test_workers_change_nothing(batches_of: Any, examples: Examples) -> None:
    config = replace(CONFIG, augment=True)
    steps = 4  # into the second epoch
    assert same(batches_of(replace(config, workers=2), examples, steps), of_torch(config, examples, steps))


@pytest.mark.parametrize(("batch_size", "batches", "last"), [(64, 6, 39), (90, 4, 89), (500, 1, 359)])
def test_every_test_sample_appears_once(batch_size: int, batches: int, last: int) -> None:
    config = replace(CONFIG, batch_size=batch_size)
    examples = torch_data.read(config, train=False)
    of_torch = list(torch_data.test_batches(config, examples))
    of_jax = list(jax_data.test_batches(config, examples))
    assert len(of_torch) == len(of_jax) == batches
    for (images, labels, mask), (images_jax, labels_jax, mask_jax) in zip(of_torch, of_jax, strict=True):
        assert (images.shape, images_jax.shape) == ((batch_size, 1, 8, 8), (batch_size, 8, 8, 1))
        np.testing.assert_array_equal(images.permute(0, 2, 3, 1).numpy(), images_jax)
        np.testing.assert_array_equal(labels.numpy(), labels_jax)
        np.testing.assert_array_equal(mask.numpy(), mask_jax)
    assert [mask.sum() for *_, mask in of_jax] == [batch_size] * (batches - 1) + [last]
    np.testing.assert_array_equal(np.concatenate([images[mask] for images, _, mask in of_jax]), examples.images)
    np.testing.assert_array_equal(np.concatenate([labels[mask] for _, labels, mask in of_jax]), examples.labels)
