"""DDP against pmap, shard_map and jit over a sharded batch: the same run, at every step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import side_by_side.jax.replicas as jax_replicas
import side_by_side.jax.train as jax_train
from port.errors import UsageError
from port.records import Status
from side_by_side.config import Config
from side_by_side.jax.replicas import joined

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


def name_of(config: Config) -> str:
    return " ".join(config.flags()).replace("/", "-")


def assert_the_same(outcome: Any, bar: float = 1e-9) -> None:
    assert outcome.verdict.status is Status.AGREE, outcome.verdict.sentence
    assert outcome.verdict.steps.largest()[1] < bar
    assert outcome.weights[1] < bar


@pytest.fixture
def both(runs):
    """(config, the same for JAX) → the outcome; a run that was made before is not made again."""

    def both(torch: Config, form: Config) -> Any:
        made = []
        # What only JAX knows apart must not make another run of PyTorch's: its replicas are ranks.
        as_ranks = replace(torch, devices=torch.replicas, processes=1, parallel="pmap", batch_norm=torch.statistics)
        for run, config in ((runs.torch, as_ranks), (runs.jax, form)):
            name = f"{run.__name__} {hash(tuple(config.flags())) % 10**12}"
            if not (runs.folder / name).exists():
                run(name, config)
            made.append(name)
        return runs.compare(*made)

    return both


# %% One device and several, where nothing depends on how many there are


@pytest.mark.parametrize(
    "form",
    [form if form in ("pmap 4", "sharding 4") else pytest.param(form, marks=pytest.mark.sweep) for form in FORMS],
)
def test_with_synchronised_statistics_and_global_masks_it_is_the_run_of_one_device(both, form):
    one = SYNCHRONISED if form in ("pmap 4", "sharding 4") else replace(ALL, batch_norm="synchronised")
    assert_the_same(both(one, told(one, FORMS[form])))


@pytest.mark.sweep
@pytest.mark.parametrize("form", FORMS)
def test_200_steps_of_one_device(both, form):
    one = replace(ALL, batch_norm="synchronised")
    assert_the_same(both(one, told(one, FORMS[form])))


# %% Ranks of DDP, and their twins


def test_two_ranks_and_their_twins(both):
    """All there is to combine, at once: own statistics, microbatches, clipping, a schedule, an uneven last batch."""
    config = replace(
        SHORT, devices=2, accumulate=2, clip_norm=0.5, schedule="cosine", drop_last=False, dropout_masks="replica"
    )
    for parallel in ("pmap", "shard-map"):
        assert_the_same(both(config, replace(config, parallel=parallel)))


@pytest.mark.sweep
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("statistics", ["replica", "synchronised"])
def test_200_steps_of_as_many_ranks(both, form, statistics):
    if form.endswith(("sharding", "sharding 4")) and statistics == "replica":
        pytest.skip("jit over a sharded batch has the statistics of all of it")
    config = told(replace(ALL, batch_norm=statistics), FORMS[form])
    assert_the_same(both(config, config))


OPTIONS = {
    "own masks": Config(dropout_masks="replica"),
    "blocks": Config(split="contiguous"),
    "padded": Config(drop_last=False, batch_size=36),
    "padded, in blocks": Config(drop_last=False, batch_size=36, split="contiguous", accumulate=3),
    "weighted": Config(drop_last=False, batch_size=34, uneven="weight"),
    "weighted, synchronised": Config(drop_last=False, batch_size=34, uneven="weight", batch_norm="synchronised"),
    "weighted, in microbatches": Config(drop_last=False, batch_size=40, uneven="weight", accumulate=4),
    "microbatches": Config(accumulate=4, clip_norm=0.5, schedule="cosine"),
    "microbatches, synchronised": Config(accumulate=4, batch_norm="synchronised", optimizer="adam"),
    "augmented": Config(augment=True, workers=1),
}


@pytest.mark.sweep
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("parallel", ["pmap", "shard-map", "sharding"])
def test_every_option(both, option, parallel):
    config = replace(OPTIONS[option], model="convnet", steps=60, devices=2, parallel=parallel)
    if parallel == "sharding":
        if config.dropout_masks == "replica":
            pytest.skip("jit over a sharded batch knows no replicas")
        config = replace(config, batch_norm="synchronised")
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


# %% The traps, planted: what the verdict says of each


def d2(monkeypatch: pytest.MonkeyPatch) -> None:
    """shard_map sums the gradients of what all replicas share: their mean is N times too large."""
    monkeypatch.setattr(jax_replicas.ShardMap, "local", lambda self, tree: tree)


def d3(monkeypatch: pytest.MonkeyPatch) -> None:
    """grad(pmean(loss)) under pmap: every replica goes its own way."""
    right = jax_replicas.Pmap.mean

    def wrong(self: Any, tree: Any) -> Any:
        loss, gradients = tree
        return right(self, loss), gradients

    monkeypatch.setattr(jax_replicas.Pmap, "mean", wrong)


def d8(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mean of means, over microbatches and replicas that have not the same number of samples."""
    right = jax_train.loss_fn

    def wrong(params: Any, stats: Any, graphdef: Any, batch: Any, masks: Any, samples: float) -> Any:
        return right(params, stats, graphdef, batch, masks, batch.real.sum())

    monkeypatch.setattr(jax_train, "loss_fn", wrong)


def o18(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradients of microbatches summed up, each of a mean: their sum taken for the mean."""
    right = jax_train.loss_fn

    def wrong(params: Any, stats: Any, graphdef: Any, batch: Any, masks: Any, samples: float) -> Any:
        return right(params, stats, graphdef, batch, masks, samples / 2)

    monkeypatch.setattr(jax_train, "loss_fn", wrong)


def one_microbatch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tree functions return new trees: who does not keep them updates with one microbatch alone."""
    monkeypatch.setattr(
        jax_train.jax.lax, "scan", lambda add, total, others: (add(total, jax.tree.map(lambda x: x[0], others))[0],)
    )


def every_statistic_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The running statistics' mean over the replicas, in place of replica 0's (D5)."""
    monkeypatch.setattr(jax_replicas.Pmap, "first", lambda self, tree: jax.lax.pmean(tree, "replica"))


def own_masks_all_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each replica draws for itself, from one key: the masks of all are those of the first."""
    right = jax_replicas.Replicas.place

    def wrong(self: Any, images: Any, labels: Any, places: Any) -> Any:
        return right(self, images, labels, places._replace(rows=places.own_rows))

    monkeypatch.setattr(jax_replicas.Replicas, "place", wrong)


def blocks_for_interleaved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch cut into blocks, as JAX shards an array, where DistributedSampler takes every n-th."""
    right = jax_replicas.Replicas.share

    def wrong(self: Any, plan: Any, *, filled: bool) -> Any:
        share = right(self, plan, filled=filled)
        return replace(share, shards=replace(share.shards, split="contiguous"))

    monkeypatch.setattr(jax_replicas.Replicas, "share", wrong)


MLP = Config(steps=24, dropout=0.3, devices=2)
TRAPS = {
    d2: replace(MLP, parallel="shard-map"),
    d3: MLP,
    d8: replace(MLP, batch_size=34, drop_last=False, uneven="weight", steps=60, epochs=None),
    o18: replace(MLP, accumulate=2),
    one_microbatch: replace(MLP, accumulate=4),
    every_statistic_kept: replace(SHORT, devices=2),
    own_masks_all_alike: MLP,
    blocks_for_interleaved: replace(SHORT, devices=2),
}


@pytest.mark.sweep
@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.__name__)
def test_the_verdict_catches(both, runs, trap, monkeypatch):
    config = TRAPS[trap]
    assert_the_same(both(config, config))
    torch = f"torch {hash(tuple(replace(config, parallel='pmap', batch_norm=config.statistics).flags())) % 10**12}"
    trap(monkeypatch)
    runs.jax(f"trap {trap.__name__}", config)
    verdict = runs.compare(torch, f"trap {trap.__name__}").verdict
    assert verdict.status is Status.DIFFER
    print(f"\n{trap.__name__}: {verdict.sentence}")


# %% What is said of the step itself


def of_each_replica(form: Config, function: Any, x: Any) -> Any:
    """``function(replicas, params, x)`` on four replicas, in the form: params shared, x (4, n) one row each."""
    with joined(form) as replicas:
        if isinstance(replicas, jax_replicas.Pmap):
            mapped = jax.pmap(lambda p, row: function(replicas, p, row), "replica", in_axes=(None, 0))
        else:
            spec = jax.sharding.PartitionSpec
            mapped = jax.shard_map(
                lambda p, rows: function(replicas, p, rows[0])[None],
                mesh=replicas.mesh,
                in_specs=(spec(), spec("replica")),
                out_specs=spec("replica"),
            )
        return jax.device_get(mapped(jnp.arange(1.0, 4.0), x))


@pytest.mark.parametrize(
    "form", [Config(devices=4), Config(devices=4, parallel="shard-map")], ids=["pmap", "shard_map"]
)
def test_D2_and_D3_local_then_mean_is_the_gradient_of_the_mean_in_both_forms(form):
    x = jnp.asarray([[0.5, -1.0, 2.0], [1.5, 0.25, -0.5], [-2.0, 3.0, 1.0], [0.75, 1.25, -1.5]])

    def loss(params: Any, row: Any) -> Any:
        return jnp.square(params @ row)

    def gradients(replicas: Any, params: Any, row: Any) -> Any:
        return replicas.mean(jax.grad(loss)(replicas.local(params), row))

    def without_local(replicas: Any, params: Any, row: Any) -> Any:
        return replicas.mean(jax.grad(loss)(params, row))

    def of_the_mean(replicas: Any, params: Any, row: Any) -> Any:
        return jax.grad(lambda p: replicas.mean(loss(p, row)))(params)

    params = jnp.arange(1.0, 4.0)
    right = jax.grad(lambda p: jnp.mean(jax.vmap(loss, (None, 0))(p, x)))(params)
    close = {"rtol": 1e-6}
    assert jnp.allclose(of_each_replica(form, gradients, x), right, **close)
    if form.parallel == "pmap":
        assert jnp.allclose(of_each_replica(form, without_local, x), right, **close)
        assert jnp.allclose(
            of_each_replica(form, of_the_mean, x), jax.vmap(jax.grad(loss), (None, 0))(params, x), **close
        )
    else:
        assert jnp.allclose(of_each_replica(form, without_local, x), 4 * right, **close)
        assert jnp.allclose(of_each_replica(form, of_the_mean, x), right, **close)


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
        ({"resume": True}, "--resume goes on with a run that was begun: name its folder with --out"),
        ({"checkpoint_every": 0}, "checkpoint_every must be at least 1, got 0"),
        ({"time_limit": 0.0}, "time_limit must be above 0, got 0"),
    ],
)
def test_a_config_that_cannot_be(options, says):
    with pytest.raises(UsageError, match=says):
        Config(**options)


def test_more_devices_than_there_are():
    jax.devices()  # from here on there are as many as there are
    with (
        pytest.raises(UsageError, match="64 devices are wanted, JAX has 4 here: take --devices 4"),
        joined(Config(devices=64)),
    ):
        pass


def test_ranks_that_nobody_started(monkeypatch):
    from side_by_side.pytorch.replicas import joined

    with (
        pytest.raises(UsageError, match="2 replicas are wanted, 1 started; start them with"),
        joined(Config(devices=2)),
    ):
        pass
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="1 replicas are wanted, 2 started"), joined(Config()):
        pass
