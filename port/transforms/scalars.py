"""The scalars of one step: bias corrections and learning rates, from a count that may be traced."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import optax

Number = float | jax.Array
"""A hyperparameter: a Python number, or a scalar that may be traced."""


def log_decay(decay: Number) -> Number:
    """log(decay), −∞ for 0; for a Python number in double precision, since float32 loses it near 1."""
    if isinstance(decay, (int, float)):
        return math.log(decay) if decay > 0 else -math.inf
    return jnp.log(decay)


def bias_correction(decay: Number, count: jax.Array) -> jax.Array:
    """1 − decay^count, without the cancellation of a decay near 1 in float32 (for 0.999 and count 1: 5e-5 of it).

    Args:
        decay: in [0, 1).
        count: int32 scalar, 1 for the first step.
    """
    return -jnp.expm1(count * log_decay(decay))


def learning_rate_at(learning_rate: optax.ScalarOrSchedule, count: jax.Array) -> Number:
    """Return a schedule's learning rate at ``count`` (0 for the first step), or the constant one."""
    return learning_rate(count) if callable(learning_rate) else learning_rate
