"""Max unpooling against torch's, in float64: values to their indices, gradients from them."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as F

import port.nn.functional as ours
from port.errors import UsageError

# The short run has these functions too, through their pairs: torch's own samples, one an entry.
pytestmark = pytest.mark.sweep

UNPOOL = {1: F.max_unpool1d, 2: F.max_unpool2d, 3: F.max_unpool3d}
POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}


def pooled(spatial: int, **given: Any) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    x = np.random.default_rng(0).normal(0.5, 2, (2, 3, *(9, 7, 6)[:spatial]))
    values, indices = POOL[spatial](torch.from_numpy(x), return_indices=True, **given)
    return values.numpy(), indices.numpy(), x.shape[2:]


def difference(against_torch: Any, spatial: int, values: Any, indices: Any, size: Any = None, **given: Any) -> float:
    places, channels = torch.from_numpy(indices), -spatial - 1
    mine = jnp.asarray(np.moveaxis(indices, channels, -1))
    seen = against_torch(
        lambda x: UNPOOL[spatial](x, places, output_size=size, **given),
        lambda x: jnp.moveaxis(ours.max_unpool(x, mine, size, **given), -1, channels),
        values,
        channels=channels,
    )
    return max(seen.values())


@pytest.mark.parametrize("spatial", [1, 2, 3])
@pytest.mark.parametrize("sized", [False, True])
def test_what_a_pool_gave_goes_back(spatial: int, sized: bool, against_torch: Any) -> None:
    given = {"kernel_size": (3, 2, 2)[:spatial]}
    values, indices, size = pooled(spatial, **given)
    if not sized and spatial > 1:
        indices = indices % int(np.prod(values.shape[2:]))  # inside the smaller output
    assert difference(against_torch, spatial, values, indices, list(size) if sized else None, **given) == 0


def test_windows_that_overlap_send_one_element_twice_and_both_get_the_gradient(against_torch: Any) -> None:
    given = {"kernel_size": (3, 3), "stride": (1, 2), "padding": (1, 0)}
    values, indices, _ = pooled(2, **given)
    assert len(np.unique(indices[0, 0])) < indices[0, 0].size
    assert difference(against_torch, 2, values, indices, **given) == 0
    # The gradient of what is written there, which the element that lost does not get.
    places = jnp.asarray(indices[0, 0].ravel())
    plain = jax.grad(lambda x: jnp.zeros(63).at[places].set(x).sum())(jnp.asarray(values[0, 0].ravel()))
    assert (plain == 0).any()


def test_other_indices_are_seen(against_torch: Any) -> None:
    values, indices, size = pooled(2, kernel_size=(3, 2))
    given: dict[str, Any] = {"kernel_size": (3, 2), "output_size": tuple(size)}
    turned = jnp.asarray(np.moveaxis(indices[:, ::-1].copy(), 1, -1))
    seen = against_torch(
        partial(F.max_unpool2d, indices=torch.from_numpy(indices), **given),
        lambda x: jnp.moveaxis(ours.max_unpool(x, turned, **given), -1, 1),
        values,
        channels=1,
    )
    assert min(seen.values()) > 1e-2


def test_no_batch_and_a_whole_output_size() -> None:
    values, indices = jnp.arange(1.0, 7).reshape(1, 2, 3), jnp.array([[[0, 3, 5], [9, 2, 11]]])
    y = ours.max_unpool(values, indices, kernel_size=(2, 2))
    assert y.shape == (2, 4, 3)
    assert {(int(i), float(y.reshape(8, 3)[i, 0])) for i in (0,)} == {(0, 1.0)}
    assert y.reshape(8, 3)[5, 2] == 3
    assert y.sum() == 1 + 2 + 3 + 5  # 9 and 11 are beyond the output
    batched = ours.max_unpool(values[None], indices[None], (1, 2, 5, 3), kernel_size=(2, 2))
    assert batched.shape == (1, 2, 5, 3)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_the_dtype_is_kept(dtype: str, float64: None) -> None:
    given = jax.ShapeDtypeStruct((2, 3, 4, 5), jnp.dtype(dtype))
    indices = jnp.zeros(given.shape, int)

    def call(x: jax.Array) -> jax.Array:
        return ours.max_unpool(x, indices, kernel_size=(2, 2))

    output, gradient = jax.eval_shape(lambda x: (call(x), jax.grad(lambda x: call(x).sum())(x)), given)
    assert output.dtype == given.dtype
    assert gradient == given


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, i: ours.max_unpool(x, i[0], kernel_size=(2, 2)), "an index for each value"),
        (lambda x, i: ours.max_unpool(x, i, (6, 10), kernel_size=(2, 2)), "does not pool to"),
        (lambda x, i: ours.max_unpool(x, i, (6,), kernel_size=(2, 2)), "does not pool to"),
    ],
)
def test_what_cannot_be_is_refused(call: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call(jnp.ones((2, 3, 4, 5)), jnp.zeros((2, 3, 4, 5), int))
