"""port.nn.Embedding by itself: indices out of range, the table that renormalises itself, initial values."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from port.errors import UsageError
from port.nn import Embedding


def layer(*arguments: Any, **options: Any) -> Embedding:
    return Embedding(*arguments, rngs=nnx.Rngs(0), **options)


@pytest.mark.parametrize("index", [-1, 5, 1000])
@pytest.mark.parametrize("rows", [1, 5])
def test_W17_an_index_out_of_range_is_nan_where_torch_raises(index: int, rows: int) -> None:
    with pytest.raises(IndexError):
        torch.nn.Embedding(rows, 3)(torch.tensor([0, index]))
    table = layer(rows, 3)
    for call in (table, nnx.jit(lambda table, indices: table(indices))):
        arguments = (jnp.array([0, index]),) if call is table else (table, jnp.array([0, index]))
        y = call(*arguments)
        assert np.isfinite(y[0]).all()
        assert np.isnan(y[1]).all()


def test_W17_flaxs_own_takes_some_of_them() -> None:
    five, one = nnx.Embed(5, 3, rngs=nnx.Rngs(0)), nnx.Embed(1, 3, rngs=nnx.Rngs(0))
    assert np.isfinite(five(jnp.array([-1]))).all()
    assert np.isfinite(one(jnp.array([7]))).all()
    assert np.isnan(five(jnp.array([5]))).all()


def test_W24_initial_values_are_drawn_as_torch_draws_them() -> None:
    for values in (
        torch.nn.Embedding(400, 30, padding_idx=-1).weight.detach().numpy(),
        np.asarray(layer(400, 30, padding_idx=-1).embedding[...]),
    ):
        assert not values[-1].any()
        assert abs(values[:-1].mean()) < 5 / np.sqrt(values[:-1].size)
        assert values[:-1].std() == pytest.approx(1, abs=0.04)


def test_W17_the_table_renormalises_itself_under_nnxs_transformations() -> None:
    """The same rows, and the gradient of a step that starts from them, in whichever way it is called."""
    indices = torch.tensor([0, 2, 2, 3])
    theirs = torch.nn.Embedding(5, 3, max_norm=1.0, dtype=torch.float32)
    start = theirs.weight.detach().numpy().copy() * 3
    with torch.no_grad():
        theirs.weight.copy_(torch.from_numpy(start))
    torch.square(theirs(indices)).sum().backward()

    def loss(table: Embedding, indices: jax.Array) -> jax.Array:
        return jnp.square(table(indices)).sum()

    calls: dict[str, Any] = {
        "eager": loss,
        "jit": nnx.jit(loss),
        "grad": nnx.grad(loss),
        "both": nnx.jit(nnx.grad(loss)),
    }
    for name, call in calls.items():
        ours = layer(5, 3, max_norm=1.0)
        ours.embedding[...] = jnp.asarray(start)
        result = call(ours, jnp.asarray(indices.numpy()))
        np.testing.assert_allclose(ours.embedding[...], theirs.weight.detach().numpy(), rtol=1e-6, err_msg=name)
        if name in ("grad", "both"):
            np.testing.assert_allclose(result.embedding[...], theirs.weight.grad.numpy(), rtol=1e-5, err_msg=name)
    assert np.abs(start - theirs.weight.detach().numpy()).max() > 0.1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.thin(3)
def test_the_dtype_is_the_tables(dtype: str) -> None:
    table = layer(5, 3, padding_idx=1, scale_grad_by_freq=True, param_dtype=dtype)
    assert table(jnp.array([1, 2])).dtype == dtype
    assert jax.grad(lambda w: jnp.take(w, 0, 0).sum())(table.embedding[...]).dtype == dtype


@pytest.mark.parametrize("padding_idx", [5, -6])
def test_a_padding_index_that_is_no_row_is_refused(padding_idx: int) -> None:
    with pytest.raises(AssertionError):
        torch.nn.Embedding(5, 3, padding_idx=padding_idx)
    with pytest.raises(UsageError, match="no row of a table of 5"):
        layer(5, 3, padding_idx=padding_idx)


def test_indices_are_integers() -> None:
    with pytest.raises(UsageError, match="integers, got float32"):
        layer(5, 3)(jnp.ones(2))
