"""Elements by their order and number, and the extremes so far, with their places, against torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import port.nn.functional as ours

EQUALS = np.array([[3.0, 1, 3, 1, 2], [5, 5, 4, 4, 4], [0, -1, 0, 2, 2]])
WITH_NAN = np.where(EQUALS == 4, np.nan, EQUALS)
CALLS: dict[str, tuple[Callable[..., Any], Callable[..., Any], dict[str, Any]]] = {
    "cummax": (torch.cummax, ours.cummax, {}),
    "cummin": (torch.cummin, ours.cummin, {}),
    "mode": (torch.mode, ours.mode, {"keepdim": True}),
    "kthvalue": (torch.kthvalue, ours.kthvalue, {"k": 2}),
}


@pytest.mark.thin(8)
@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("name", CALLS)
def test_values_places_and_gradients(name: str, dim: int, float64: None) -> None:
    theirs, twin, options = CALLS[name]
    # Of equals torch names what kthvalue finds as it likes.
    x = EQUALS + (np.arange(15).reshape(3, 5) / 100 if name == "kthvalue" else 0)
    tensor = torch.from_numpy(x.copy()).requires_grad_()
    values, places = theirs(tensor, dim=dim, **options)
    (gradient,) = torch.autograd.grad(values.square().sum(), tensor)

    def squares(x: jax.Array) -> tuple[jax.Array, Any]:
        got = twin(x, dim=dim, **options)
        return jnp.square(got[0]).sum(), got

    (_, got), ours_ = jax.value_and_grad(squares, has_aux=True)(jnp.asarray(x))
    np.testing.assert_array_equal(got[0], values.detach())
    np.testing.assert_array_equal(got[1], places)
    assert got[1].dtype == jnp.int64
    np.testing.assert_array_equal(ours_, gradient)


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_nan_stays(name: str, float64: None) -> None:
    theirs, twin, _ = CALLS[name]
    for got, expected in zip(twin(jnp.asarray(WITH_NAN), 1), theirs(torch.from_numpy(WITH_NAN), 1), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_the_first_of_equals_is_seen_to_be_another_place() -> None:
    assert ours.cummax(jnp.asarray([1.0, 1.0]), 0)[1].tolist() == [0, 1]
    assert jnp.argmax(jnp.asarray([1.0, 1.0])) == 0
