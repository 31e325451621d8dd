"""What ranks have in common: the first records, all share a batch, and a rank that was told otherwise is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from port.data import IndexPlan
from port.errors import FolderExists, UsageError
from port.records import Recorder, Unrecorded, read_record
from port.records.heartbeat import read_beats
from port.records.recorder import RECORD_VARIABLE, SIDE_VARIABLE
from side_by_side.config import Config
from side_by_side.ranks import Rank, check_the_same, fingerprints

CONFIG = Config(devices=2, processes=2, batch_size=24)


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (RECORD_VARIABLE, SIDE_VARIABLE):
        monkeypatch.delenv(variable, raising=False)


def weights() -> list[np.ndarray]:
    random = np.random.default_rng(5)
    return [random.standard_normal((5, 7)), random.standard_normal(7).astype(np.float32), np.zeros((), np.int64)]


def all_told(*others: tuple[Config, list[np.ndarray], int]) -> list[dict[str, bytes]]:
    """What rank 0 and these were told."""
    return [fingerprints(*each) for each in ((CONFIG, weights(), 0), *others)]


def losses(record: Path) -> dict[int, float]:
    return {step: line.loss for step, line in read_record(record).steps.items()}


class TestTheSame:
    def test_all_were_told_the_same(self) -> None:
        check_the_same(all_told())
        check_the_same(all_told((CONFIG, weights(), 0), (replace(CONFIG), weights(), 0)))

    def test_folders_and_patience_may_differ(self) -> None:
        elsewhere = replace(CONFIG, out=Path("/other/run"), data_root=Path("/other/data"), download=True, time_limit=9)
        check_the_same(all_told((elsewhere, weights(), 0), (replace(elsewhere, resume=True), weights(), 0)))

    def test_so_may_the_layout_in_memory(self) -> None:
        other = [array.copy(order="F") for array in weights()]
        assert not other[0].flags.c_contiguous
        check_the_same(all_told((CONFIG, other, 0)))

    def test_weights_of_every_type_are_compared(self) -> None:
        low = [np.arange(6).astype(ml_dtypes.bfloat16)]
        check_the_same([fingerprints(CONFIG, low, 0), fingerprints(CONFIG, iter(low), 0)])

    @pytest.mark.parametrize(
        "change",
        [{"lr": 0.06}, {"seed": 1}, {"drop_last": False}, {"devices": 1, "processes": 4}, {"precision": "float64"}],
        ids=str,
    )
    def test_another_config_is_named(self, change: dict[str, float]) -> None:
        with pytest.raises(
            UsageError, match=r"^rank 1 has another config than rank 0: start all of them with the same"
        ):
            check_the_same(all_told((replace(CONFIG, **change), weights(), 0)))

    def test_one_element_of_the_weights_is_found(self) -> None:
        other = weights()
        other[0][3, 4] = np.nextafter(other[0][3, 4], np.inf)
        with pytest.raises(UsageError, match=r"^rank 2 has another set of initial weights than rank 0: "):
            check_the_same(all_told((CONFIG, weights(), 0), (CONFIG, other, 0)))

    @pytest.mark.parametrize(
        "change",
        [
            lambda w: [w[0].reshape(7, 5), *w[1:]],
            lambda w: [w[0].view(np.int64), *w[1:]],
            lambda w: w[::-1],
            lambda w: w[:-1],
            lambda w: [w[0].T.copy(), *w[1:]],
        ],
        ids=["shape", "type", "order", "number", "transposed"],
    )
    def test_so_is_what_has_the_same_bytes(self, change: Callable[[list[np.ndarray]], list[np.ndarray]]) -> None:
        with pytest.raises(UsageError, match="another set of initial weights"):
            check_the_same(all_told((CONFIG, change(weights()), 0)))

    def test_another_first_step_is_named_with_all_its_ranks(self) -> None:
        with pytest.raises(UsageError, match=r"^ranks 1, 3 have another first step than rank 0: .* same checkpoint$"):
            check_the_same(all_told((CONFIG, weights(), 7), (CONFIG, weights(), 0), (CONFIG, weights(), 8)))

    def test_rank_0_may_be_the_odd_one(self) -> None:
        others = (CONFIG, weights(), 7)
        with pytest.raises(UsageError, match=r"^ranks 1, 2 have another first step than rank 0"):
            check_the_same(all_told(others, others))

    def test_what_is_told_is_of_one_size_whatever_the_weights(self) -> None:
        assert [len(told) for told in all_told()[0].values()] == [32] * 3


class TestRecorder:
    def test_the_first_one_records(self, tmp_path: Path) -> None:
        path = tmp_path / "jax.jsonl"
        recorders = [Rank(CONFIG, rank, 2).recorder(path, 0, {"total_steps": 3}) for rank in range(2)]
        assert [type(each) for each in recorders] == [Recorder, Unrecorded]
        for rank, each in enumerate(recorders):
            with each as record:
                record(0, loss=2.5 + rank)
        assert read_record(path).about["total_steps"] == 3
        assert losses(path) == {0: 2.5}

    def test_the_others_leave_a_record_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "jax.jsonl"
        path.write_text("what the first one has written\n")
        for first_step in (0, 5):
            with Rank(CONFIG, 1, 2).recorder(path, first_step, {}) as record:
                record(first_step, loss=1.0)
        assert path.read_text() == "what the first one has written\n"

    def test_another_run_is_not_written_over(self, tmp_path: Path) -> None:
        path = tmp_path / "jax.jsonl"
        path.write_text("of another run\n")
        with pytest.raises(FolderExists, match="there is a record at"):
            Rank(CONFIG).recorder(path, 0, {})
        assert path.read_text() == "of another run\n"

    def test_a_run_that_was_killed_before_its_first_checkpoint_begins_anew(self, tmp_path: Path) -> None:
        path = tmp_path / "jax.jsonl"
        path.write_text("cut o")
        with Rank(replace(CONFIG, out=tmp_path, resume=True)).recorder(path, 0, {}) as record:
            record(0, loss=2.5)
        assert losses(path) == {0: 2.5}

    def test_from_a_later_step_on_it_goes_on(self, tmp_path: Path) -> None:
        path = tmp_path / "jax.jsonl"
        with Recorder(path, total_steps=4) as record:
            for step in range(3):
                record(step, loss=step + 0.5)
        with Rank(replace(CONFIG, out=tmp_path, resume=True)).recorder(path, 2, {"total_steps": 9}) as record:
            record(2, loss=7.5)
            record(3, loss=8.5)
        assert losses(path) == {0: 0.5, 1: 1.5, 2: 7.5, 3: 8.5}
        assert read_record(path).about["total_steps"] == 4, "the record says it already"

    def test_a_run_that_was_begun_with_other_options_does_not(self, tmp_path: Path) -> None:
        path = tmp_path / "jax.jsonl"
        begun = replace(CONFIG, out=tmp_path, checkpoint_every=2)
        with Rank(begun).recorder(path, 0, {}) as record:
            for step in range(3):
                record(step, loss=step + 0.5)
        before = path.read_bytes()
        other = replace(begun, resume=True, lr=0.5, seed=3)
        with pytest.raises(
            UsageError,
            match=r"jax.jsonl was started with --lr None \(now 0.5\), --seed 0 \(now 3\): resume it with its own",
        ):
            Rank(other).recorder(path, 2, {})
        assert path.read_bytes() == before
        patient = replace(begun, resume=True, time_limit=9.0, data_root=tmp_path, precision="float64")
        with Rank(patient).recorder(path, 2, {}) as record:
            record(2, loss=9.5)
        assert losses(path) == {0: 0.5, 1: 1.5, 2: 9.5}


class TestShare:
    PLAN = IndexPlan(29, 24, seed=2, drop_last=False)

    def test_the_processes_have_all_replicas_in_their_order(self) -> None:
        ranks = [Rank(CONFIG, rank, 2) for rank in range(2)]
        assert [rank.own for rank in ranks] == [2, 2]
        assert [rank.leads for rank in ranks] == [True, False]
        assert [rank.share(self.PLAN, filled=False).replicas for rank in ranks] == [range(2), range(2, 4)]
        as_ddp = [Rank(CONFIG, rank, 4).share(self.PLAN, filled=False) for rank in range(4)]
        assert [share.replicas for share in as_ddp] == [range(rank, rank + 1) for rank in range(4)]

    @pytest.mark.parametrize("processes", [1, 2, 4])
    def test_together_they_load_every_sample(self, processes: int) -> None:
        config = replace(CONFIG, uneven="weight", accumulate=2, split="contiguous", drop_last=False)
        loaded = [
            Rank(config, rank, processes).share(self.PLAN, filled=False).epoch(1).tolist() for rank in range(processes)
        ]
        assert sorted(chain.from_iterable(loaded)) == list(range(29))

    def test_it_is_what_the_config_says(self) -> None:
        config = replace(CONFIG, uneven="weight", accumulate=3, split="contiguous")
        share = Rank(config, 1, 2).share(self.PLAN, filled=True)
        assert share.filled
        assert share.shards.plan is self.PLAN
        assert (share.shards.replicas, share.shards.microbatches) == (4, 3)
        assert (share.shards.split, share.shards.uneven) == ("contiguous", "weight")
        assert not Rank(config).share(self.PLAN, filled=False).filled

    def test_alone_it_has_all(self) -> None:
        rank = Rank(CONFIG)
        assert (rank.leads, rank.own) == (True, 4)
        assert rank.share(self.PLAN, filled=False).replicas == range(4)


def test_each_rank_says_how_far_it_is(tmp_path: Path) -> None:
    record = tmp_path / "jax.jsonl"
    with Rank(CONFIG, 0, 2).heartbeat(record) as first, Rank(CONFIG, 1, 2).heartbeat(record) as second:
        first(5)
        second(4)
        assert [(beat.rank, beat.step) for beat in read_beats(record)] == [(0, 5), (1, 4)]
