"""A gradient of one's own, against torch.autograd.Function's."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

import port.nn.functional as F


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return torch.sign(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return gradient * (x.abs() < 1)


def straight(x: jax.Array) -> jax.Array:
    return F.sloped(jax.lax.stop_gradient(jnp.sign(x)), x, (jnp.abs(x) < 1).astype(x.dtype))


X = np.array([[-2.0, -0.3, 0.4], [0.9, 1.7, np.inf]])


def test_a_straight_through_estimator(float64: None) -> None:
    weights = np.random.default_rng(0).normal(size=X.shape)
    x = torch.from_numpy(X).requires_grad_()
    (Straight.apply(x) * torch.from_numpy(weights)).sum().backward()
    ours = jax.jit(jax.grad(lambda x: (straight(x) * weights).sum()))(X)
    np.testing.assert_array_equal(ours, x.grad.numpy())
    np.testing.assert_array_equal(straight(jnp.asarray(X)), np.sign(X))
    assert np.abs(jax.grad(lambda x: (jnp.sign(x) * weights).sum())(X) - x.grad.numpy()).max() > 1e-2


def test_forward_mode_and_batches(float64: None) -> None:
    tangent = np.ones_like(X)
    value, slope = jax.jvp(straight, (jnp.asarray(X),), (jnp.asarray(tangent),))
    np.testing.assert_array_equal(value, np.sign(X))
    np.testing.assert_array_equal(slope, np.abs(X) < 1)
    np.testing.assert_array_equal(jax.vmap(jax.grad(lambda row: straight(row).sum()))(X), np.abs(X) < 1)


def test_it_is_added_to_what_y_has() -> None:
    gradient = jax.grad(lambda x: F.sloped(x**2, x, jnp.float32(-3.0)))(2.0)
    assert gradient == 2 * 2 - 3
