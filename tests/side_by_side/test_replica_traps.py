"""The traps of data parallelism, planted: each is caught by the verdict, or shown for what it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import side_by_side.jax.replicas as jax_replicas
import side_by_side.jax.train as jax_train
from port.records import Status
from side_by_side.config import Config
from side_by_side.jax.processes import joined

SHORT = Config(model="convnet", steps=24)  # over the end of an epoch


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
    d8: replace(MLP, batch_size=48, drop_last=False, uneven="weight", steps=40, devices=3),  # an epoch's last: 46
    o18: replace(MLP, accumulate=2),
    one_microbatch: replace(MLP, accumulate=4),
    every_statistic_kept: replace(SHORT, devices=2),
    own_masks_all_alike: MLP,
    blocks_for_interleaved: replace(SHORT, devices=2),
}


@pytest.mark.sweep
@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.__name__)
def test_the_verdict_catches(both, trap, monkeypatch):
    config = TRAPS[trap]
    assert both(config, config).verdict.status is Status.AGREE
    with monkeypatch.context() as patch:
        trap(patch)
        verdict = both(config, config, as_jax=f"trap {trap.__name__}").verdict
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
@pytest.mark.thin(2)
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
