"""Replica r of either side sees the same samples: as torch's DistributedSampler gives them out, or in blocks."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, DistributedSampler

from port.data import IndexPlan, Shards, loss_weights
from port.data.shards import SPLITS, UNEVEN
from port.errors import UnknownChoice, UsageError


@st.composite
def shards(draw: st.DrawFn, uneven: tuple[str, ...] = UNEVEN) -> Shards:
    replicas = draw(st.integers(1, 6))
    plan = IndexPlan(
        length=draw(st.integers(1, 90)),
        batch_size=replicas * draw(st.integers(1, 5)),
        seed=draw(st.integers(0, 50)),
        drop_last=False,
    )
    return Shards(plan, replicas, draw(st.sampled_from(SPLITS)), draw(st.sampled_from(uneven)))


def distributed_sampler(given: Shards, epoch: int) -> list[list[list[int]]]:
    """What torch's own samplers give to every replica, batch by batch, of samples in the plan's order."""
    order = given.plan.epoch(epoch).tolist()
    own_size = given.plan.batch_size // given.replicas
    of_replica = []
    for rank in range(given.replicas):
        sampler = DistributedSampler(order, num_replicas=given.replicas, rank=rank, shuffle=False)
        batches = BatchSampler(sampler, own_size, drop_last=False)
        of_replica.append([[order[place] for place in batch] for batch in batches])
    return [list(batch) for batch in zip(*of_replica, strict=True)]


@settings(deadline=None)
@given(shards(uneven=("pad",)), st.integers(0, 3))
def test_interleaved_and_padded_is_torchs_distributed_sampler(given: Shards, epoch: int) -> None:
    ours = [[shard.tolist() for shard in batch] for batch in given.epoch(epoch)]
    theirs = distributed_sampler(given, epoch)
    if given.split == "interleaved":
        assert ours == theirs
    else:
        assert [sorted(chain(*batch)) for batch in ours] == [sorted(chain(*batch)) for batch in theirs]


def test_D7_ten_samples_on_four_ranks() -> None:
    plan = IndexPlan(10, 12, shuffle=False, drop_last=False)
    [batch] = Shards(plan, 4).epoch(0)
    assert [shard.tolist() for shard in batch] == [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]
    [batch] = Shards(plan, 4, "contiguous").epoch(0)
    assert [shard.tolist() for shard in batch] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 0, 1]]


@settings(deadline=None)
@given(shards())
def test_a_replica_has_its_share_of_every_batch(given: Shards) -> None:
    seen = []
    for number, batch in enumerate(given.epoch(1)):
        assert len(batch) == given.replicas
        sizes = [len(shard) for shard in batch]
        whole = given.plan.batch(number + given.plan.batches_per_epoch)
        assert set(whole.tolist()) <= {int(sample) for shard in batch for sample in shard}
        assert max(sizes) - min(sizes) <= (1 if given.uneven == "weight" else 0)
        assert sizes == sorted(sizes, reverse=True)
        seen += [int(sample) for shard in batch for sample in shard]
    assert number + 1 == given.plan.batches_per_epoch
    if given.uneven == "weight":
        assert sorted(seen) == list(range(given.plan.length))


@settings(deadline=None)
@given(shards(uneven=("weight",)))
def test_D8_the_weighted_mean_over_the_replicas_is_the_batchs(given: Shards) -> None:
    losses = np.random.default_rng(3).standard_normal(given.plan.length) + 2
    for batch in given.epoch(0):
        weights = loss_weights(batch)
        own = [
            weight * losses[shard].mean() if len(shard) else 0.0 for weight, shard in zip(weights, batch, strict=True)
        ]
        assert np.mean(own) == pytest.approx(losses[np.concatenate(batch)].mean(), rel=1e-13)


def test_D8_a_mean_of_means_is_not() -> None:
    *_, batch = Shards(IndexPlan(13, 8, drop_last=False), 4, uneven="weight").epoch(0)
    losses = np.arange(13.0) ** 2
    of_means = np.mean([losses[shard].mean() for shard in batch])
    assert abs(of_means / losses[np.concatenate(batch)].mean() - 1) > 1e-2
    assert loss_weights(batch) == [1.6, 0.8, 0.8, 0.8]


def test_nothing_is_uneven_where_the_last_batch_is_dropped() -> None:
    batches = list(Shards(IndexPlan(13, 8), 4).epoch(0))
    assert [[len(shard) for shard in batch] for batch in batches] == [[2, 2, 2, 2]]
    assert loss_weights(batches[0]) == [1.0] * 4


def test_errors() -> None:
    plan = IndexPlan(100, 10)
    with pytest.raises(UsageError, match=r"a \(global\) batch of 10 .* among 4 replicas: choose a batch of 8 or 12"):
        Shards(plan, 4)
    with pytest.raises(UsageError, match="choose a batch of 16, or another number"):
        Shards(plan, 16)
    with pytest.raises(UsageError, match="replicas must be at least 1, got 0"):
        Shards(plan, 0)
    with pytest.raises(UnknownChoice, match="unknown split 'blocks'; there are: contiguous, interleaved"):
        Shards(plan, 2, "blocks")
    with pytest.raises(UnknownChoice, match="unknown option for an uneven batch 'drop'"):
        Shards(plan, 2, uneven="drop")
