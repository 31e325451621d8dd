"""The plan is a permutation of the samples each epoch, and the same one everywhere."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from port.data import IndexPlan, PlannedIndex
from port.errors import UsageError

PLANS = st.builds(
    IndexPlan,
    length=st.integers(20, 200),
    batch_size=st.integers(1, 20),
    seed=st.integers(0, 2**64),
    shuffle=st.booleans(),
    drop_last=st.booleans(),
)


class TestEpochs:
    @settings(deadline=None)
    @given(plan=PLANS, epoch=st.integers(0, 1000))
    def test_every_sample_is_visited_once(self, plan: IndexPlan, epoch: int) -> None:
        visited = plan.epoch(epoch)
        assert visited.dtype == np.int64
        assert len(visited) == len(set(visited.tolist())) == plan.samples_per_epoch
        assert set(visited.tolist()) <= set(range(plan.length))
        if not plan.drop_last:
            assert sorted(visited.tolist()) == list(range(plan.length))

    @settings(deadline=None)
    @given(plan=PLANS, epoch=st.integers(0, 5))
    def test_batches_are_the_epochs_slices(self, plan: IndexPlan, epoch: int) -> None:
        first = epoch * plan.batches_per_epoch
        batches = [plan.batch(first + number) for number in range(plan.batches_per_epoch)]
        assert np.concatenate(batches).tolist() == plan.epoch(epoch).tolist()
        assert {len(batch) for batch in batches[:-1]} <= {plan.batch_size}
        assert len(batches[-1]) == plan.batch_size or not plan.drop_last

    def test_the_order_depends_on_seed_and_epoch_alone(self) -> None:
        orders = {
            (seed, epoch): tuple(IndexPlan(100, 10, seed=seed).epoch(epoch)) for seed in range(4) for epoch in range(4)
        }
        assert len(set(orders.values())) == len(orders)
        for (seed, epoch), order in orders.items():
            assert tuple(IndexPlan(100, 10, seed=seed).epoch(epoch)) == order
            assert tuple(IndexPlan(100, 7, seed=seed, drop_last=False).epoch(epoch)) == order

    @pytest.mark.parametrize(
        ("seed", "epoch", "order"),
        [
            (0, 0, [0, 8, 9, 3, 7, 5, 1, 2, 6, 4]),
            (0, 1, [3, 7, 4, 2, 9, 8, 1, 6, 5, 0]),
            (1, 0, [2, 0, 1, 4, 5, 6, 7, 8, 3, 9]),
            (1, 1, [7, 1, 6, 9, 3, 5, 0, 8, 2, 4]),
        ],
    )
    def test_the_order_never_changes(self, seed: int, epoch: int, order: list[int]) -> None:
        """Not between platforms, releases of numpy or our own: an old record could not be repeated."""
        assert IndexPlan(10, 2, seed=seed).epoch(epoch).tolist() == order

    def test_the_order_never_changes_for_a_larger_dataset(self) -> None:
        assert IndexPlan(60_000, 64, seed=1).epoch(2)[:6].tolist() == [4463, 9773, 25837, 20882, 302, 39074]

    def test_the_samples_are_well_mixed(self) -> None:
        """Any sample comes at any place: over many epochs, the mean place of each is near the middle."""
        plan = IndexPlan(10, 10, seed=3)
        places = np.mean([np.argsort(plan.epoch(epoch)) for epoch in range(2000)], axis=0)
        np.testing.assert_allclose(places, 4.5, atol=0.3)  # five times the standard error

    def test_without_shuffling_the_dataset_has_the_order(self) -> None:
        plan = IndexPlan(10, 3, seed=5, shuffle=False)
        assert plan.epoch(0).tolist() == plan.epoch(7).tolist() == list(range(9))
        assert plan.batch(4).tolist() == [3, 4, 5]


@pytest.mark.parametrize(
    ("length", "batch_size", "drop_last", "batches", "samples"),
    [
        (10, 3, True, 3, 9),
        (10, 3, False, 4, 10),
        (9, 3, True, 3, 9),
        (9, 3, False, 3, 9),
        (3, 3, True, 1, 3),
        (2, 3, False, 1, 2),
        (1, 1, True, 1, 1),
        (1437, 64, True, 22, 1408),
        (1437, 64, False, 23, 1437),
    ],
)
def test_sizes_of_an_epoch(length: int, batch_size: int, drop_last: bool, batches: int, samples: int) -> None:
    plan = IndexPlan(length, batch_size, drop_last=drop_last)
    assert (plan.batches_per_epoch, plan.samples_per_epoch) == (batches, samples)
    assert len(plan.epoch(0)) == samples
    assert len(plan.batch(batches - 1)) == samples - (batches - 1) * batch_size


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"length": 0}, "at least one sample, got length 0"),
        ({"length": -5}, "got length -5"),
        ({"length": 10.0}, "length must be a whole number, got 10.0"),
        ({"batch_size": 0}, "batch size must be at least 1, got 0"),
        ({"batch_size": -1}, "got -1"),
        ({"batch_size": "8"}, "batch_size must be a whole number, got '8'"),
        ({"batch_size": 11}, "batch size 11 exceeds the dataset's 10 samples.*drop_last=False"),
        ({"seed": -1}, "seed must not be negative, got -1"),
        ({"seed": None}, "seed must be a whole number, got None"),
    ],
)
def test_what_cannot_be_right_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        IndexPlan(**{"length": 10, "batch_size": 2, **arguments})


@pytest.mark.parametrize("shuffle", [True, False])
def test_there_is_nothing_before_step_0(shuffle: bool) -> None:
    plan = IndexPlan(10, 2, shuffle=shuffle)
    for ask in (plan.epoch, plan.batch):
        with pytest.raises(UsageError, match="counted from 0"):
            ask(-1)


def test_numpys_whole_numbers_do() -> None:
    plan = IndexPlan(np.int64(10), np.int32(2), seed=np.uint8(1))
    assert plan.epoch(np.int64(0)).tolist() == IndexPlan(10, 2, seed=1).epoch(0).tolist()


class TestPlannedIndex:
    def test_it_is_an_int(self) -> None:
        index = PlannedIndex(3, epoch=7)
        assert isinstance(index, int)
        assert (index, index.epoch, hash(index)) == (3, 7, hash(3))
        assert "abcde"[index] == "d"
        assert np.arange(5)[index] == 3

    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_it_keeps_its_epoch_when_pickled(self, protocol: int) -> None:
        back = pickle.loads(pickle.dumps(PlannedIndex(3, epoch=7), protocol))
        assert (type(back), back, back.epoch) == (PlannedIndex, 3, 7)

    def test_it_keeps_its_epoch_on_the_way_to_another_process_and_back(self) -> None:
        indices = [PlannedIndex(index, epoch=index + 5) for index in range(3)]
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            assert pool.map(attrgetter("epoch"), indices) == [5, 6, 7]
            back = pool.map(copy.copy, indices)
        assert [(index, index.epoch) for index in back] == [(0, 5), (1, 6), (2, 7)]
