"""DDP against pmap, shard_map and jit over a sharded batch: the same run, at every step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import pytest

from port.data import load_dataset
from port.errors import UsageError
from port.records import Status
from side_by_side.config import Config
from side_by_side.jax.processes import joined

SHORT = Config(model="convnet", steps=24)  # over the end of an epoch
SYNCHRONISED = replace(SHORT, batch_norm="synchronised")
ALL = replace(SHORT, steps=200)

FORMS = {
    "pmap": Config(devices=2),
    "pmap 4": Config(devices=4),
    "shard_map": Config(devices=2, parallel="shard-map"),
    "shard_map 4": Config(devices=4, parallel="shard-map"),
    "sharding": Config(devices=2, parallel="sharding"),
    "sharding 4": Config(devices=4, parallel="sharding"),
    "2 processes of 2, pmap": Config(devices=2, processes=2),
    "2 processes of 2, shard_map": Config(devices=2, processes=2, parallel="shard-map"),
    "2 processes of 2, sharding": Config(devices=2, processes=2, parallel="sharding"),
}


def told(config: Config, form: Config) -> Config:
    return replace(config, devices=form.devices, processes=form.processes, parallel=form.parallel)


def assert_the_same(outcome: Any, bar: float = 1e-9) -> None:
    assert outcome.verdict.status is Status.AGREE, outcome.verdict.sentence
    assert outcome.verdict.steps.largest()[1] < bar
    assert outcome.weights.difference < bar


# %% One device and several, where nothing depends on how many there are


@pytest.mark.sweep
@pytest.mark.parametrize("form", ["pmap 4", "sharding 4"])
def test_with_synchronised_statistics_and_global_masks_it_is_the_run_of_one_device(both, form):
    assert_the_same(both(SYNCHRONISED, told(SYNCHRONISED, FORMS[form])))


@pytest.mark.sweep
@pytest.mark.daily(2)
@pytest.mark.parametrize("form", FORMS)
def test_200_steps_of_one_device(both, form):
    one = replace(ALL, batch_norm="synchronised")
    assert_the_same(both(one, told(one, FORMS[form])))


# %% Ranks of DDP, and their twins: two in every run of the tests, four in the long ones alone (D11)


@pytest.mark.sweep
def test_two_ranks_and_their_twins(both):
    """All there is to combine, at once: own statistics, microbatches, clipping, a schedule, an uneven last batch."""
    config = replace(
        SHORT, devices=2, accumulate=2, clip_norm=0.5, schedule="cosine", drop_last=False, dropout_masks="replica"
    )
    assert_the_same(both(config, config))


@pytest.mark.sweep
@pytest.mark.daily(2)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("statistics", ["replica", "synchronised"])
def test_200_steps_of_as_many_ranks(both, form, statistics):
    if form.endswith(("sharding", "sharding 4")) and statistics == "replica":
        pytest.skip("jit over a sharded batch has the statistics of all of it")
    config = told(replace(ALL, batch_norm=statistics), FORMS[form])
    assert_the_same(both(config, config))


OPTIONS = {
    "own masks": Config(devices=2, dropout_masks="replica"),
    "blocks": Config(devices=2, split="contiguous"),
    "padded": Config(devices=3, drop_last=False, batch_size=48),
    "padded, in blocks": Config(devices=2, drop_last=False, batch_size=48, split="contiguous", accumulate=3),
    "weighted": Config(devices=3, drop_last=False, batch_size=48, uneven="weight"),
    "weighted, synchronised": Config(
        devices=3, drop_last=False, batch_size=48, uneven="weight", batch_norm="synchronised"
    ),
    "weighted, in microbatches": Config(devices=2, drop_last=False, batch_size=40, uneven="weight", accumulate=4),
    "microbatches": Config(devices=2, accumulate=4, clip_norm=0.5, schedule="cosine"),
    "microbatches, synchronised": Config(devices=2, accumulate=4, batch_norm="synchronised", optimizer="adam"),
    "augmented": Config(devices=2, augment=True, workers=1),
}
STEPS = 40


def test_the_uneven_options_are_uneven():
    """The last batch of an epoch, before the run's end, is not divisible."""
    samples = len(load_dataset("digits", None, train=True))
    for name, option in OPTIONS.items():
        if not option.drop_last:
            assert samples // option.batch_size < STEPS - 1, name
            assert samples % option.batch_size % (option.replicas * option.accumulate), name


@pytest.mark.sweep
@pytest.mark.daily(3)
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("parallel", ["pmap", "shard-map"])
def test_every_option(both, option, parallel):
    config = replace(OPTIONS[option], model="convnet", steps=STEPS, parallel=parallel)
    assert_the_same(both(config, config))


@pytest.mark.sweep
@pytest.mark.daily(3)
@pytest.mark.parametrize("option", [name for name, option in OPTIONS.items() if option.batch_norm])
def test_options_of_a_sharded_batch(both, option):
    config = replace(OPTIONS[option], model="convnet", steps=STEPS, parallel="sharding")
    assert_the_same(both(config, config))


@pytest.mark.sweep
def test_one_device_in_microbatches_is_its_twin_and_without_statistics_the_whole_batch(both):
    config = replace(SHORT, accumulate=8)
    assert_the_same(both(config, config))
    mlp = Config(steps=24, dropout=0.4)
    assert_the_same(both(mlp, replace(mlp, accumulate=8)))
    assert_the_same(both(mlp, replace(mlp, accumulate=4, devices=2)))


@pytest.mark.sweep
def test_with_own_statistics_more_devices_are_another_run(both):
    """What is synchronised above is not so by itself: the statistics of 16 samples are not those of 64."""
    assert both(SHORT, replace(SHORT, devices=4)).verdict.status is Status.DIFFER


# %% What cannot be


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"devices": 3}, "a batch of 64 is not divisible by 3 replicas x 1 microbatches; .*--batch-size 66"),
        ({"devices": 2, "accumulate": 5}, "2 replicas x 5 microbatches; .*--batch-size 70"),
        ({"devices": 0}, "devices must be at least 1, got 0"),
        ({"devices": 2, "parallel": "xmap"}, "unknown form of data parallelism 'xmap'; there are: pmap"),
        ({"devices": 2, "parallel": "sharding", "batch_norm": "replica"}, "--batch-norm replica: jit over a sharded"),
        ({"devices": 2, "parallel": "sharding", "dropout_masks": "replica"}, "--dropout-masks replica: jit over"),
        ({"resume": True}, "--resume continues an existing run: name its folder with --out"),
        ({"checkpoint_every": 0}, "checkpoint_every must be at least 1, got 0"),
        ({"time_limit": 0.0}, "time_limit must be above 0, and a month at most, got 0"),
    ],
)
def test_a_config_that_cannot_be(options, says):
    with pytest.raises(UsageError, match=says):
        Config(**options)


def test_more_devices_than_there_are():
    jax.devices()  # from here on there are as many as there are
    with (
        pytest.raises(UsageError, match="64 devices are configured, but JAX has 4 here: choose --devices 4"),
        joined(Config(devices=64)),
    ):
        pass


def test_ranks_that_nobody_started(monkeypatch):
    from side_by_side.pytorch.processes import joined

    with (
        pytest.raises(UsageError, match="2 replicas are configured, 1 started; start them with"),
        joined(Config(devices=2)),
    ):
        pass
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="1 replicas are configured, 2 started"), joined(Config()):
        pass
