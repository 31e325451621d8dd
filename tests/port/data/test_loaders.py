"""torch's DataLoader and grain's MapDataset give the same batches: the plan's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import grain
import numpy as np
import pytest
from torch.utils.data import DataLoader

from port.data import Augmented, Examples, IndexPlan, PlanSampler, PlanSource
from port.data.augment import shift_and_flip
from port.errors import UsageError

Batches = list[tuple[np.ndarray, np.ndarray]]

LENGTH, BATCH_SIZE, EPOCHS = 23, 5, 3


@pytest.fixture
def examples() -> Examples:
    """Samples that say which they are: each label is its index."""
    images = np.random.default_rng(0).integers(0, 256, (LENGTH, 6, 6, 3), np.uint8)
    return Examples(images, np.arange(LENGTH, dtype=np.int32))


@pytest.fixture
def augmented(examples: Examples) -> Augmented:
    """Samples that say in which epoch they were drawn, too."""
    return Augmented(examples, partial(shift_and_flip, padding=2), seed=1)


def as_numpy(batches: Iterable[Any]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for images, labels in batches:
        yield np.asarray(images).copy(), np.asarray(labels).copy()  # a worker's arrays lie in shared memory


def torch_batches(dataset: Any, plan: IndexPlan, epochs: Iterable[int] = range(EPOCHS), workers: int = 0) -> Batches:
    sampler = PlanSampler(plan)
    context = "spawn" if workers else None
    loader = DataLoader(
        dataset,
        batch_sampler=sampler,
        num_workers=workers,
        multiprocessing_context=context,
        persistent_workers=workers > 0,
    )
    batches: Batches = []
    for epoch in epochs:
        sampler.set_epoch(epoch)
        batches += as_numpy(loader)
        assert len(loader) == plan.batches_per_epoch
    return batches


def grain_batches(dataset: Any, plan: IndexPlan, epochs: Iterable[int] = range(EPOCHS), workers: int = 0) -> Batches:
    batches: Batches = []
    for epoch in epochs:
        loader = grain.MapDataset.source(PlanSource(dataset, plan, epoch)).batch(plan.batch_size)
        if workers:
            loader = loader.to_iter_dataset().mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))
        batches += as_numpy(loader)
    return batches


def same(a: Batches, b: Batches) -> bool:
    return len(a) == len(b) and all(
        np.array_equal(images, others) and np.array_equal(labels, other_labels)
        for (images, labels), (others, other_labels) in zip(a, b, strict=True)
    )


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("batches_of", [torch_batches, grain_batches])
def test_a_loader_gives_the_plans_batches(batches_of: Any, drop_last: bool, examples: Examples) -> None:
    plan = IndexPlan(LENGTH, BATCH_SIZE, seed=3, drop_last=drop_last)
    batches = batches_of(examples, plan)
    assert len(batches) == EPOCHS * (4 if drop_last else 5)
    for step, (images, labels) in enumerate(batches):
        assert labels.tolist() == plan.batch(step).tolist()
        np.testing.assert_array_equal(images, examples.images[plan.batch(step)])


@pytest.mark.parametrize("drop_last", [True, False])
def test_both_loaders_augment_alike(drop_last: bool, augmented: Augmented) -> None:
    plan = IndexPlan(LENGTH, BATCH_SIZE, seed=3, drop_last=drop_last)
    of_torch = torch_batches(augmented, plan)
    assert same(of_torch, grain_batches(augmented, plan))

    other_seed = IndexPlan(LENGTH, BATCH_SIZE, seed=4, drop_last=drop_last)
    other_draw = Augmented(augmented.dataset, augmented.augmentation, seed=2)
    assert not same(of_torch, grain_batches(augmented, other_seed))
    assert not same(of_torch, grain_batches(augmented, plan, epochs=(0, 1, 1)))
    assert not same(of_torch, grain_batches(other_draw, plan))
    assert not same(of_torch, grain_batches(augmented.dataset, plan))


@pytest.mark.sweep
def test_torchs_workers_change_nothing(augmented: Augmented) -> None:
    plan = IndexPlan(LENGTH, BATCH_SIZE, seed=3, drop_last=False)
    with_workers = torch_batches(augmented, plan, workers=2)
    assert same(with_workers, torch_batches(augmented, plan))
    assert not same(with_workers, torch_batches(augmented, plan, epochs=(0, 1, 1)))


@pytest.mark.sweep
def test_grains_workers_change_nothing(augmented: Augmented) -> None:
    plan = IndexPlan(LENGTH, BATCH_SIZE, seed=3, drop_last=False)
    with_workers = grain_batches(augmented, plan, epochs=[2], workers=2)
    assert same(with_workers, torch_batches(augmented, plan, epochs=[2]))
    assert not same(with_workers, torch_batches(augmented, plan, epochs=[1]))


@pytest.mark.parametrize("length", [LENGTH - 1, LENGTH + 1])
def test_a_dataset_of_another_length_is_refused(length: int, examples: Examples) -> None:
    with pytest.raises(UsageError, match=f"the plan is for {length} samples, the dataset has {LENGTH}"):
        PlanSource(examples, IndexPlan(length, BATCH_SIZE))


def test_a_source_is_as_long_as_its_epoch(examples: Examples) -> None:
    for drop_last, length in ((True, 20), (False, 23)):
        assert len(PlanSource(examples, IndexPlan(LENGTH, BATCH_SIZE, drop_last=drop_last))) == length
