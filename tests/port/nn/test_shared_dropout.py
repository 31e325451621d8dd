"""port.nn.SharedDropout: nnx.Dropout's masks, rows of them, and the same elements as torch's under shared_dropout."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from port.errors import UsageError
from port.nn import DropoutMasks, SharedDropout
from port.random import dropout_key, shared_dropout

SEED, STEP, LAYER = 3, 5, 2
WHOLE = 12
SPLITS = {  # a line for each replica
    "interleaved": np.arange(WHOLE).reshape(3, 4).T,
    "contiguous": np.arange(WHOLE).reshape(4, 3),
    "padded by repeating": np.resize(np.arange(WHOLE), (5, 3)),
}


def step_key() -> jax.Array:
    return jax.random.fold_in(jax.random.key(SEED), STEP)


def numbers(*shape: int, dtype: Any = jnp.float32) -> jax.Array:
    """No zeros: what is 0 afterwards was dropped."""
    return jnp.asarray(1 + np.random.default_rng(0).random(shape), dtype)


def dropped(dropout: SharedDropout, x: jax.Array, masks: DropoutMasks, layer: int = LAYER) -> jax.Array:
    """Compiled, as a training step is: XLA then divides in another way."""
    return jax.jit(lambda x, masks: dropout(x, masks, layer))(x, masks)


@partial(jax.jit, static_argnames=("rate", "broadcast_dims"))
def by_flax(x: jax.Array, key: jax.Array, rate: float, broadcast_dims: tuple[int, ...] = ()) -> jax.Array:
    return nnx.Dropout(rate, broadcast_dims=broadcast_dims)(x, rngs=key)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.thin(2)
def test_without_rows_it_is_nnx_dropout(dtype: str) -> None:
    with jax.enable_x64(dtype == "float64"):
        x = numbers(WHOLE, 7, dtype=dtype)
        y = dropped(SharedDropout(0.3), x, DropoutMasks(step_key()))
        expected = by_flax(x, jax.random.fold_in(step_key(), LAYER), 0.3)
        assert y.dtype == dtype
        np.testing.assert_array_equal(y, expected)
        assert (dropped(SharedDropout(0.3), x, DropoutMasks(step_key()), LAYER + 1) != expected).any()
        assert (dropped(SharedDropout(0.3), x, DropoutMasks(jax.random.key(SEED))) != expected).any()


@pytest.mark.parametrize(
    ("split", "dtype", "shape", "broadcast_dims"),
    [
        *((split, "float32", (7,), ()) for split in SPLITS),
        *(("interleaved", dtype, (7,), ()) for dtype in ("bfloat16", "float64")),
        ("interleaved", "float32", (2, 3, 5), ()),
        ("interleaved", "float32", (2, 3, 5), (1, -2)),
    ],
)
@pytest.mark.thin(9)
def test_replicas_together_drop_what_the_whole_batch_drops(
    split: str, dtype: str, shape: tuple[int, ...], broadcast_dims: tuple[int, ...]
) -> None:
    with jax.enable_x64(dtype == "float64"):
        x = numbers(WHOLE, *shape, dtype=dtype)
        rows = SPLITS[split]
        dropout = SharedDropout(0.3, broadcast_dims=broadcast_dims)

        @jax.jit
        def by_replicas(rows: jax.Array) -> jax.Array:
            return jnp.stack([dropout(x[own], DropoutMasks(step_key(), drawn, WHOLE), LAYER) for own, drawn in rows])

        expected = by_flax(x, jax.random.fold_in(step_key(), LAYER), 0.3, broadcast_dims)[rows]
        together = by_replicas(np.stack([rows, rows], axis=1))
        assert together.dtype == dtype
        np.testing.assert_array_equal(together, expected)
        assert (together == 0).any()
        reversed_rows = by_replicas(np.stack([rows, rows[:, ::-1]], axis=1))
        assert (reversed_rows != expected).any(), "in another order"
        each_its_own = by_replicas(np.stack([rows, np.broadcast_to(np.arange(rows.shape[1]), rows.shape)], axis=1))
        assert (each_its_own != expected).any(), "each replica as if it were the first"


def test_axes_that_share_a_mask_may_be_the_samples_too() -> None:
    x, rows = numbers(WHOLE, 7), jnp.array([7, 2])
    expected = by_flax(x, jax.random.fold_in(step_key(), LAYER), 0.3, (0,))
    y = dropped(SharedDropout(0.3, broadcast_dims=(0,)), x[rows], DropoutMasks(step_key(), rows, WHOLE))
    np.testing.assert_array_equal(y, expected[rows])
    assert ((y == 0).all(0) == (y == 0).any(0)).all()
    assert (dropped(SharedDropout(0.3), x[rows], DropoutMasks(step_key(), rows, WHOLE)) != y).any()


def test_the_gradient_is_the_whole_batchs() -> None:
    x, weights = numbers(WHOLE, 7), numbers(WHOLE, 7)[::-1]
    rows = SPLITS["interleaved"][1]
    dropout = SharedDropout(0.3)

    @jax.jit
    @jax.grad
    def of_part(x: jax.Array) -> jax.Array:
        return (dropout(x, DropoutMasks(step_key(), jnp.asarray(rows), WHOLE), LAYER) * weights[rows]).sum()

    @jax.jit
    @jax.grad
    def of_whole(x: jax.Array) -> jax.Array:
        return (dropout(x, DropoutMasks(step_key()), LAYER) * weights).sum()

    np.testing.assert_array_equal(of_part(x[rows]), of_whole(x)[rows])
    assert (of_part(x[rows]) != of_whole(x)[: len(rows)]).any()


# %% Beside torch


class TorchModel(torch.nn.Module):
    """Dropouts of three kinds, the last one drawn twice; channels first."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = torch.nn.Dropout(0.3)
        self.channels = torch.nn.Dropout2d(0.4)
        self.again = torch.nn.Dropout(0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.channels(self.elements(x)).mean((2, 3))
        return self.again(self.again(x))


class Model(nnx.Module):
    def __init__(self) -> None:
        self.elements = SharedDropout(0.3)
        self.channels = SharedDropout(0.4, broadcast_dims=(1, 2))
        self.again = SharedDropout(0.2)

    def __call__(self, x: jax.Array, masks: DropoutMasks) -> jax.Array:
        x = self.channels(self.elements(x, masks, 0), masks, 1).mean((1, 2))
        return self.again(self.again(x, masks, 2), masks, 3)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.thin(6)
def test_torch_drops_the_same(split: str, dtype: str) -> None:
    x64 = dtype == "float64"
    tolerance = 1e-15 if x64 else 1e-6
    with jax.enable_x64(x64):
        theirs, ours = TorchModel(), Model()
        x = numbers(WHOLE, 3, 2, 50, dtype=dtype)  # (N, H, W, C)
        run = jax.jit(lambda x, masks: ours(x, masks))
        whole = np.asarray(run(x, DropoutMasks(step_key())))
        for rows in SPLITS[split]:
            tensor = torch.from_numpy(np.asarray(x)[rows]).permute(0, 3, 1, 2)
            key = dropout_key(SEED, STEP, x64=x64)
            with shared_dropout(theirs, key, channels_last=True, rows=rows.tolist(), batch_size=WHOLE):
                expected = theirs(tensor).numpy()
            got = run(x[rows], DropoutMasks(step_key(), jnp.asarray(rows), WHOLE))
            np.testing.assert_allclose(got, expected, rtol=tolerance)
            np.testing.assert_allclose(whole[rows], expected, rtol=tolerance)
            assert (np.asarray(got) == 0).any()
            with shared_dropout(theirs, key, channels_last=True, rows=rows[::-1].tolist(), batch_size=WHOLE):
                assert np.abs(theirs(tensor).numpy() - expected).max() > 1e-2, "rows in another order"


# %% Modes and rates, as nnx.Dropout has them


@pytest.mark.parametrize("rows", [None, jnp.arange(4)])
def test_evaluation_and_the_rates_0_and_1(rows: jax.Array | None) -> None:
    x = jnp.array([[1.0], [-1.0], [jnp.inf], [jnp.nan]])
    masks = DropoutMasks(step_key(), rows, None if rows is None else 9)
    evaluating = SharedDropout(0.3)
    evaluating.eval()
    for dropout in (evaluating, SharedDropout(0.0), nnx.view(SharedDropout(0.3), deterministic=True)):
        np.testing.assert_array_equal(dropout(x, masks, 0), x)
    y, gradient = jax.value_and_grad(lambda x: SharedDropout(1.0)(x, masks, 0).sum())(x)
    assert y == 0
    assert (gradient == 0).all()
    evaluating.train()
    assert (evaluating(numbers(4, 20), masks, 0) == 0).any()
    with pytest.raises(ValueError, match="deterministic"):
        SharedDropout(0.3, deterministic=None)(x, masks, 0)


def test_it_is_built_and_carried_as_nnx_dropout_is() -> None:
    dropout = SharedDropout(0.3, broadcast_dims=(1,), rngs=nnx.Rngs(0))
    assert isinstance(dropout, nnx.Dropout)
    assert not jax.tree.leaves(nnx.state(SharedDropout(0.3)))
    before = nnx.state(dropout)
    y = dropout(numbers(6, 5), DropoutMasks(step_key()), 0)
    assert (y == y[:, :1]).sum() < y.size or (y == 0).any()
    assert jax.tree.all(jax.tree.map(lambda a, b: (a == b).all(), before, nnx.state(dropout))), (
        "no stream is drawn from"
    )


# %% JAX's transformations

REPLICAS = 4
ROWS = SPLITS["interleaved"]
dropout = SharedDropout(0.3)


def test_it_is_a_pytree_whose_batch_size_is_static() -> None:
    masks = DropoutMasks(step_key(), jnp.arange(3), WHOLE)
    leaves, structure = jax.tree.flatten(masks)
    assert len(leaves) == 2
    assert jax.tree.unflatten(structure, leaves).batch_size == WHOLE
    assert structure != jax.tree.structure(replace(masks, batch_size=WHOLE + 1))
    assert len(jax.tree.leaves(DropoutMasks(step_key()))) == 1


@pytest.mark.parametrize("mapped", ["vmap", "scan", "shard_map", "pmap"])
@pytest.mark.thin(4)
def test_under_each_transformation(mapped: str) -> None:
    x = numbers(WHOLE, 7)
    expected = np.asarray(by_flax(x, jax.random.fold_in(step_key(), LAYER), 0.3))
    count = REPLICAS if mapped in ("vmap", "scan") else 1  # one device is enough to trace the others
    rows = jnp.asarray(ROWS.reshape(count, -1))
    parts, masks = x[rows], DropoutMasks(step_key(), rows, WHOLE)
    one_each = DropoutMasks(None, 0, WHOLE)  # type: ignore[arg-type]  # of each field: which axis is mapped

    def call(x: jax.Array, masks: DropoutMasks) -> jax.Array:
        return dropout(x, masks, LAYER)

    if mapped == "vmap":
        y = jax.jit(jax.vmap(call, (0, one_each)))(parts, masks)
    elif mapped == "pmap":
        y = jax.pmap(call, in_axes=(0, one_each))(parts, masks)
    elif mapped == "scan":

        def microbatch(_: None, part: tuple[jax.Array, jax.Array]) -> tuple[None, jax.Array]:
            return None, call(part[0], replace(masks, rows=part[1]))

        _, y = jax.jit(lambda parts, rows: jax.lax.scan(microbatch, None, (parts, rows)))(parts, rows)
    else:
        mesh = jax.make_mesh((count,), ("replicas",), axis_types=(jax.sharding.AxisType.Auto,))
        shared, each = jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec("replicas")
        specs = (each, DropoutMasks(shared, each, WHOLE))  # type: ignore[arg-type]
        flat = replace(masks, rows=rows.reshape(-1))
        y = jax.jit(jax.shard_map(call, mesh=mesh, in_specs=specs, out_specs=each))(x[flat.rows], flat)
        y = y.reshape(parts.shape)
    np.testing.assert_array_equal(y, expected[rows])
    assert (y != expected.reshape(parts.shape)).any()


# %% Refusals


@pytest.mark.parametrize(
    ("x", "rows", "batch_size", "message"),
    [
        ((3, 5), jnp.arange(3), None, "rows and batch_size together, but got rows alone"),
        ((3, 5), None, 9, "rows and batch_size together, but got batch_size alone"),
        ((4, 5), jnp.arange(3), 9, r"one sample a row, but got shape \(4, 5\) and rows of shape \(3,\)"),
        ((3, 5), jnp.zeros((3, 1), int), 9, "one sample a row"),
        ((), jnp.arange(1), 9, "one sample a row"),
    ],
)
def test_what_cannot_be_is_refused(
    x: tuple[int, ...], rows: jax.Array | None, batch_size: int | None, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        dropout(numbers(*x), DropoutMasks(step_key(), rows, batch_size), 0)
