"""The same in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx


class Gate(nnx.Module):
    """(…, inputs) → (…, outputs)."""

    def __init__(self, inputs: int, outputs: int, *, rngs: nnx.Rngs, param_dtype: Any = jnp.float32) -> None:
        self.kernel = nnx.Param(jax.random.normal(rngs.params(), (inputs, outputs), param_dtype))

    def __call__(self, x: jax.Array) -> jax.Array:
        return nnx.silu(x @ self.kernel)


def focal_loss(logits: jax.Array, labels: jax.Array, *, gamma: float = 2.0, reduction: str = "mean") -> jax.Array:
    """Of logits (N, …, C) and labels (N, …)."""
    log_p = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1)[..., 0]
    losses = -((1 - jnp.exp(log_p)) ** gamma) * log_p
    return losses.mean() if reduction == "mean" else losses.sum()


@jax.custom_jvp
def rounded(x: jax.Array) -> jax.Array:
    """The nearest whole numbers; the gradient goes straight through."""
    return jnp.round(x)


rounded.defjvp(lambda primals, tangents: (rounded(*primals), tangents[0]))


def is_one(beta: float) -> bool:
    """Whether a swish is the plain one."""
    return beta == 1.0


def inverse_square_root(rate: float, *, warm_up: int) -> Callable[[Any], jax.Array]:
    """step → rate."""

    def schedule(count: Any) -> jax.Array:
        step = jnp.asarray(count, float) + 1
        return rate * jnp.minimum(step / warm_up, jnp.sqrt(warm_up / step))

    return schedule
