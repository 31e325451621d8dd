"""What each process loads of a global batch, and where it stands there; the loaders follow it like a plan."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import grain
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, DistributedSampler

from port.data import Examples, IndexPlan, Places, PlanSampler, PlanSource, Shards, Share
from port.data.shards import SPLITS, UNEVEN
from port.errors import UsageError


@st.composite
def all_shares(
    draw: st.DrawFn,
    uneven: tuple[str, ...] = UNEVEN,
    most_microbatches: int = 4,
    filled: tuple[bool, ...] = (False, True),
) -> list[Share]:
    """Those of all processes, which together have every replica."""
    processes, own, microbatches = (
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, most_microbatches)),
    )
    plan = IndexPlan(
        length=draw(st.integers(1, 120)),
        batch_size=processes * own * microbatches * draw(st.integers(1, 4)),
        seed=draw(st.integers(0, 50)),
        drop_last=False,
    )
    shards = Shards(plan, processes * own, draw(st.sampled_from(SPLITS)), draw(st.sampled_from(uneven)), microbatches)
    fill = draw(st.sampled_from(filled))
    assume(fill or shards.uneven == "pad" or not 0 < plan.length % plan.batch_size < shards.replicas)
    return [Share(shards, range(process * own, (process + 1) * own), fill) for process in range(processes)]


class Loaded(NamedTuple):
    """What one process has loaded of one batch."""

    samples: list[int]
    places: Places


def loaded(share: Share, epoch: int) -> Iterator[Loaded]:
    """Batch after batch of an epoch; how many samples are each one's, its places say."""
    samples = share.epoch(epoch).tolist()
    for batch in range(share.batches_per_epoch):
        places = share.places(epoch * share.batches_per_epoch + batch)
        size = places.rows.size if share.filled else int(places.real.sum())
        yield Loaded(samples[:size], places)
        samples = samples[size:]
    assert not samples


def global_batches(shards: Shards, epoch: int) -> list[list[int]]:
    """The epoch's batches, padded with its first samples as torch pads them."""
    samples, size = shards.plan.epoch(epoch).tolist(), shards.plan.batch_size
    batches = [samples[start : start + size] for start in range(0, len(samples), size)]
    if shards.uneven == "pad":
        again = samples * size
        batches[-1] += again[: -len(batches[-1]) % (shards.replicas * shards.microbatches)]
    return batches


def of_replicas(shards: Shards, batch: list[int]) -> list[list[int]]:
    """A batch as the replicas share it."""
    if shards.split == "interleaved":
        return [batch[replica :: shards.replicas] for replica in range(shards.replicas)]
    own, more = divmod(len(batch), shards.replicas)
    ends = np.cumsum([own + (replica < more) for replica in range(shards.replicas)]).tolist()
    return [batch[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@settings(deadline=None, max_examples=60)
@given(all_shares(), st.integers(0, 3))
def test_all_places_together_are_the_batch_each_once(given: list[Share], epoch: int) -> None:
    shards = given[0].shards
    batches = global_batches(shards, epoch)
    for number, batch in enumerate(batches):
        places = [share.places(epoch * len(batches) + number) for share in given]
        rows = np.concatenate([each.rows[each.real] for each in places])
        assert sorted(rows.tolist()) == list(range(len(batch)))
        assert {each.batch_size for each in places} == {len(batch)}
        assert all(each.rows.shape == each.own_rows.shape == each.real.shape for each in places)
        assert all(each.real.all() for each in places) or shards.uneven == "weight"


@settings(deadline=None, max_examples=60)
@given(all_shares(), st.integers(0, 3))
def test_an_epoch_is_the_places_rows_row_by_row(given: list[Share], epoch: int) -> None:
    batches = global_batches(given[0].shards, epoch)
    for share in given:
        for batch, (samples, places) in zip(batches, loaded(share, epoch), strict=True):
            in_order = zip(places.rows.ravel().tolist(), places.real.ravel().tolist(), strict=True)
            assert samples == [batch[row] for row, real in in_order if real or share.filled]
            assert max(places.rows.shape[1] * places.rows.shape[0], len(samples)) <= share.batch_size


@settings(deadline=None, max_examples=60)
@given(all_shares(), st.integers(0, 3))
def test_every_sample_is_seen_and_only_padding_twice(given: list[Share], epoch: int) -> None:
    shards = given[0].shards
    seen = []
    for share in given:
        for samples, places in loaded(share, epoch):
            counts = places.real.ravel().tolist() if share.filled else [True] * len(samples)
            seen += [sample for sample, real in zip(samples, counts, strict=True) if real]
    assert sorted(seen) == sorted(chain(*global_batches(shards, epoch)))
    if shards.uneven == "weight":
        assert sorted(seen) == list(range(shards.plan.length))


@settings(deadline=None, max_examples=60)
@given(all_shares(uneven=("pad",), most_microbatches=1), st.integers(0, 3))
def test_padded_it_is_torchs_distributed_sampler(given: list[Share], epoch: int) -> None:
    shards = given[0].shards
    order = shards.plan.epoch(epoch).tolist()
    theirs = []
    for rank in range(shards.replicas):
        sampler: DistributedSampler[int] = DistributedSampler(
            order, num_replicas=shards.replicas, rank=rank, shuffle=False
        )
        batches = BatchSampler(sampler, shards.plan.batch_size // shards.replicas, drop_last=False)
        theirs.append([[order[place] for place in batch] for batch in batches])
    for share in given:
        ours = [samples for samples, _ in loaded(share, epoch)]
        expected = [list(chain(*batch)) for batch in zip(*(theirs[replica] for replica in share.replicas), strict=True)]
        if shards.split == "interleaved":
            assert ours == expected
        else:
            assert [len(batch) for batch in ours] == [len(batch) for batch in expected]


@settings(deadline=None, max_examples=60)
@given(all_shares(), st.integers(0, 3))
def test_microbatch_by_microbatch_and_in_each_replica_by_replica(given: list[Share], epoch: int) -> None:
    shards = given[0].shards
    for share in given:
        batches = global_batches(shards, epoch)
        for batch, (_, places) in zip(batches, loaded(share, epoch), strict=True):
            size = places.own_size // shards.microbatches  # of one replica's part in a microbatch
            assert places.rows.shape == (shards.microbatches, len(share.replicas) * size)
            of_replica = of_replicas(shards, batch)
            for place, replica in enumerate(share.replicas):
                columns = slice(place * size, (place + 1) * size)
                rows, real = places.rows[:, columns], places.real[:, columns]
                own = [batch[row] for row in rows[real]]
                assert own == of_replica[replica], "the microbatches are blocks of the replica's share"
                # What counts is in front: only a replica's last microbatches are filled up.
                assert real.ravel().tolist() == [number < len(own) for number in range(places.own_size)]


@settings(deadline=None, max_examples=60)
@given(all_shares(), st.integers(0, 3))
def test_own_rows_are_the_places_in_the_replicas_part(given: list[Share], epoch: int) -> None:
    shards = given[0].shards
    for share in given:
        for batch, (_, places) in zip(global_batches(shards, epoch), loaded(share, epoch), strict=True):
            of_replica = of_replicas(shards, batch)
            size = places.own_size // shards.microbatches
            for microbatch, column in zip(*np.nonzero(places.real), strict=True):
                own = of_replica[share.replicas[column // size]]
                assert batch[places.rows[microbatch, column]] == own[places.own_rows[microbatch, column]]
            for place in range(len(share.replicas)):
                columns = slice(place * size, (place + 1) * size)
                assert places.own_rows[:, columns].ravel().tolist() == list(range(places.own_size))


@settings(deadline=None, max_examples=60)
@given(all_shares(filled=(True,)))
def test_filled_all_processes_load_as_much(given: list[Share]) -> None:
    shards = given[0].shards
    for batches in zip(*(loaded(share, 0) for share in given), strict=True):
        assert len({len(samples) for samples, _ in batches}) == 1
        assert len({(places.rows.shape, places.own_size) for _, places in batches}) == 1
        for samples, places in batches:
            assert len(samples) % shards.microbatches == 0
            assert places.own_size * shards.replicas - places.batch_size < shards.replicas * shards.microbatches


@settings(deadline=None, max_examples=60)
@given(all_shares(uneven=("weight",)), st.integers(0, 3))
def test_D8_the_mean_over_the_replicas_is_the_batchs(given: list[Share], epoch: int) -> None:
    shards = given[0].shards
    losses = np.random.default_rng(7).standard_normal(shards.plan.length) + 2
    steps = range(epoch * shards.plan.batches_per_epoch, (epoch + 1) * shards.plan.batches_per_epoch)
    for step, batch in zip(steps, global_batches(shards, epoch), strict=True):
        of_replica = []
        for share in given:
            places = share.places(step)
            of_batch = np.where(places.real, losses[batch][places.rows], 0).reshape(
                shards.microbatches, len(share.replicas), -1
            )
            own = places.batch_size / shards.replicas
            of_replica += [
                sum(of_batch[k, r].sum() / own for k in range(len(of_batch))) for r in range(of_batch.shape[1])
            ]
        assert len(of_replica) == shards.replicas
        assert np.mean(of_replica) == pytest.approx(losses[batch].mean(), rel=1e-13)


def test_D8_what_fills_up_does_not_count() -> None:
    plan = IndexPlan(13, 8, shuffle=False, drop_last=False)
    losses = np.arange(13.0) ** 2
    shares = [Share(Shards(plan, 4, uneven="weight"), range(r, r + 1), filled=True) for r in range(4)]
    batch = plan.batch(1)
    all_counted = np.mean([losses[batch[share.places(1).rows]].mean() for share in shares])
    assert abs(all_counted / losses[batch].mean() - 1) > 1e-2


def test_two_replicas_in_two_microbatches() -> None:
    """A process with the last two of four replicas; the last batch has 13 samples of 16."""
    plan = IndexPlan(29, 16, shuffle=False, drop_last=False)
    share = Share(Shards(plan, 4, uneven="weight", microbatches=2), range(2, 4), filled=True)
    full, last = share.places(0), share.places(1)
    assert full.rows.tolist() == [[2, 6, 3, 7], [10, 14, 11, 15]]
    assert full.own_rows.tolist() == [[0, 1, 0, 1], [2, 3, 2, 3]]
    assert full.real.all()
    assert (full.batch_size, full.own_size, last.batch_size, last.own_size) == (16, 4, 13, 4)
    assert last.rows.tolist() == [[2, 6, 3, 7], [10, 0, 11, 0]]
    assert last.real.tolist() == [[True, True, True, True], [True, False, True, False]]
    assert share.epoch(0).tolist() == [2, 6, 3, 7, 10, 14, 11, 15, 18, 22, 19, 23, 26, 16, 27, 16]
    unfilled = Share(share.shards, share.replicas)
    assert unfilled.epoch(0).tolist() == [2, 6, 3, 7, 10, 14, 11, 15, 18, 22, 19, 23, 26, 27]


def test_places_say_their_types_and_begin_anew_with_each_epoch() -> None:
    share = Share(Shards(IndexPlan(20, 8, drop_last=False), 2, uneven="weight"), range(2))
    for step in range(3):
        first, again = share.places(step), share.places(step + 3)
        assert [values.dtype for values in first[:3]] == [np.int32, np.int32, np.bool_]
        for one, other in zip(first, again, strict=True):
            np.testing.assert_array_equal(one, other)
    assert [share.places(step).batch_size for step in range(6)] == [8, 8, 4, 8, 8, 4]


def test_where_the_last_batch_is_dropped_all_are_full() -> None:
    plan = IndexPlan(23, 6)
    share = Share(Shards(plan, 3, "contiguous", "weight"), range(1, 2))
    assert (share.length, share.batch_size, share.batches_per_epoch) == (23, 2, 3)
    assert share.epoch(1).tolist() == plan.epoch(1).reshape(3, 3, 2)[:, 1].ravel().tolist()
    assert [share.places(step).rows.tolist() for step in range(4)] == [[[2, 3]]] * 4


def test_one_replica_in_one_microbatch_loads_the_plan() -> None:
    plan = IndexPlan(23, 5, seed=3, drop_last=False)
    for split, uneven in zip(SPLITS, UNEVEN, strict=True):
        assert Share(Shards(plan, 1, split, uneven), range(1)).epoch(2).tolist() == plan.epoch(2).tolist()


class TestLoaders:
    """As a plan's batches, so a share's: torch's DataLoader and grain get the same ones."""

    @settings(deadline=None, max_examples=60)
    @given(all_shares(), st.integers(0, 3))
    def test_a_sampler_gives_batch_after_batch(self, given: list[Share], epoch: int) -> None:
        for share in given:
            sampler = PlanSampler(share)
            sampler.set_epoch(epoch)
            batches = list(sampler)
            assert batches == [samples for samples, _ in loaded(share, epoch)]
            assert len(sampler) == len(batches)
            assert {index.epoch for batch in batches for index in batch} == {epoch}

    @settings(deadline=None, max_examples=60)
    @given(all_shares(), st.integers(0, 3), st.data())
    def test_a_sampler_skips_an_epochs_first_batches(self, given: list[Share], epoch: int, data: st.DataObject) -> None:
        share = given[-1]
        skip = data.draw(st.integers(0, share.batches_per_epoch))
        sampler = PlanSampler(share)
        sampler.set_epoch(epoch)
        whole = list(sampler)
        sampler.set_epoch(epoch, skip)
        assert list(sampler) == whole[skip:]
        sampler.set_epoch(epoch)
        assert list(sampler) == whole, "the next epoch skips nothing"

    def test_a_sampler_skips_batches_of_a_plan_too(self) -> None:
        plan = IndexPlan(23, 5, seed=1, drop_last=False)
        sampler = PlanSampler(plan)
        sampler.set_epoch(2, 3)
        assert list(sampler) == [plan.batch(2 * 5 + 3).tolist(), plan.batch(2 * 5 + 4).tolist()]

    @settings(deadline=None, max_examples=60)
    @given(all_shares(), st.integers(0, 3))
    def test_a_source_gives_them_to_grain(self, given: list[Share], epoch: int) -> None:
        dataset = [(index, -index) for index in range(given[0].length)]
        for share in given:
            source = PlanSource(dataset, share, epoch)
            assert [source[position] for position in range(len(source))] == [
                (sample, -sample) for sample in share.epoch(epoch).tolist()
            ]

    def test_grains_batches_are_the_samplers(self) -> None:
        plan = IndexPlan(29, 16, seed=4, drop_last=False)
        examples = Examples(np.zeros((29, 2, 2, 1), np.uint8), np.arange(29, dtype=np.int32))
        share = Share(Shards(plan, 4, microbatches=2), range(2, 4))
        source = PlanSource(examples, share, 1)
        batches = [labels.tolist() for _, labels in grain.MapDataset.source(source).batch(share.batch_size)]
        sampler = PlanSampler(share)
        sampler.set_epoch(1)
        assert batches == list(sampler)
        assert [len(batch) for batch in batches] == [8, 8]

    def test_a_source_of_another_length_is_refused(self) -> None:
        share = Share(Shards(IndexPlan(10, 4), 2), range(1))
        with pytest.raises(UsageError, match="the plan is for 10 samples, the dataset has 9"):
            PlanSource([0] * 9, share)


class TestErrors:
    @pytest.mark.parametrize("replicas", [range(0), range(-1, 1), range(2, 5), range(4, 5)])
    def test_replicas_that_there_are_not(self, replicas: range) -> None:
        with pytest.raises(UsageError, match="replicas are numbered 0 to 3, got range"):
            Share(Shards(IndexPlan(100, 8), 4), replicas)

    def test_microbatches_that_do_not_divide(self) -> None:
        says = r"12 cannot be divided equally among 2 replicas in 4 microbatches each: choose a batch of 8 or 16"
        with pytest.raises(UsageError, match=says):
            Shards(IndexPlan(100, 12), 2, microbatches=4)
        with pytest.raises(UsageError, match="choose a batch of 16, or"):
            Shards(IndexPlan(100, 12), 4, microbatches=4)
        with pytest.raises(UsageError, match="microbatches must be at least 1, got 0"):
            Shards(IndexPlan(100, 12), 4, microbatches=0)

    def test_a_replica_that_the_last_batch_leaves_without_a_sample(self) -> None:
        few = Shards(IndexPlan(11, 8, drop_last=False), 4, uneven="weight")
        with pytest.raises(UsageError, match="last batch has 3 samples, too few for 4 replicas: pad it, drop it"):
            Share(few, range(1))
        assert Share(few, range(3, 4), filled=True).places(1).real.tolist() == [[False]]
        assert Share(Shards(few.plan, 4), range(3, 4)).places(1).real.tolist() == [[True]]
        assert Share(Shards(IndexPlan(11, 8), 4, uneven="weight"), range(1)).batches_per_epoch == 1
        assert Share(Shards(IndexPlan(12, 8, drop_last=False), 4, uneven="weight"), range(1)).places(1).own_size == 1
