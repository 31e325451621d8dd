"""port.nn.EmbeddingBag by itself: ties, refusals, compilation. Its modes are compared in the tests of its pair."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from port.errors import UnknownChoice, UsageError
from port.nn import EmbeddingBag

pytestmark = pytest.mark.sweep  # what the pairs' own tests see of it is in the short run


def layer(**options: Any) -> EmbeddingBag:
    return EmbeddingBag(5, 3, rngs=nnx.Rngs(0), **options)


def test_the_gradient_of_a_tie_goes_to_the_first_row() -> None:
    rows = np.array([[1.0, 2.0, 3.0], [1.0, 5.0, 3.0], [0.0, 5.0, 3.0], [0, 0, 0], [9, 9, 9]], np.float32)
    theirs = torch.nn.EmbeddingBag.from_pretrained(torch.from_numpy(rows), freeze=False, mode="max")
    theirs(torch.tensor([[2, 0, 1], [3, 4, 3]])).sum().backward()
    ours = layer(mode="max")
    ours.embedding[...] = jnp.asarray(rows)
    gradient = nnx.grad(lambda bags: bags(jnp.array([[2, 0, 1], [3, 4, 3]])).sum())(ours)
    np.testing.assert_array_equal(gradient.embedding[...], theirs.weight.grad.numpy())
    assert theirs.weight.grad.numpy()[2].tolist() == [0, 1, 1]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_an_empty_bag_is_zeros_and_has_a_finite_gradient(mode: str) -> None:
    bags = layer(mode=mode, padding_idx=1)
    y = bags(jnp.array([1, 1, 2]), jnp.array([0, 2, 3]))
    assert not y[0].any()
    assert not y[2].any()
    assert y[1].any()
    gradient = nnx.grad(lambda bags: bags(jnp.array([1, 1, 2]), jnp.array([0, 2, 3])).sum())(bags)
    assert gradient.embedding[...].tolist() == [[0] * 3, [0] * 3, [1] * 3, [0] * 3, [0] * 3]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_compiled_it_is_the_same(mode: str) -> None:
    bags, inputs = layer(mode=mode), (jnp.array([0, 4, 4, 2, 1]), jnp.array([0, 3]))
    np.testing.assert_allclose(nnx.jit(lambda bags, *inputs: bags(*inputs))(bags, *inputs), bags(*inputs), rtol=1e-6)


def test_past_the_last_offset_is_no_bag() -> None:
    bags = layer(mode="sum", include_last_offset=True)
    y = bags(jnp.array([0, 4, 4, 2, 1]), jnp.array([0, 2, 4]))
    rows = bags.embedding[...]
    np.testing.assert_allclose(y, jnp.stack([rows[0] + rows[4], rows[4] + rows[2]]), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_dtype_is_the_tables(dtype: str) -> None:
    for mode in ("sum", "mean", "max"):
        y = jax.eval_shape(layer(mode=mode, param_dtype=dtype), jnp.array([[1, 2]]))
        assert y.dtype == dtype


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"mode": "median"}, UnknownChoice, "'median'.*mean"),
        ({"mode": "max", "scale_grad_by_freq": True}, UsageError, "no meaning for mode 'max'"),
        ({"padding_idx": 5}, UsageError, "no row"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        layer(**options)


@pytest.mark.parametrize(
    ("mode", "inputs", "message"),
    [
        ("sum", (jnp.array([1, 2]),), "with offsets"),
        ("sum", (jnp.array([[1, 2]]), jnp.array([0])), "with offsets"),
        ("mean", (jnp.array([[1, 2]]), None, jnp.ones((1, 2))), "mode 'mean'"),
        ("sum", (jnp.array([[1, 2]]), None, jnp.ones(2)), "one for each index"),
    ],
)
def test_inputs_that_do_not_go_together_are_refused(mode: str, inputs: tuple[Any, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        layer(mode=mode)(*inputs)
