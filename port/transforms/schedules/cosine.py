"""Schedules along a cosine: CosineAnnealingLR, CosineAnnealingWarmRestarts (`torch/optim/lr_scheduler.py`)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from port.transforms.schedules.count import Schedule, as_float


def cosine_annealing_lr(base: float, T_max: int, eta_min: float = 0.0) -> Schedule:
    """CosineAnnealingLR: ``eta_min + (base − eta_min) · (1 + cos(π · count / T_max)) / 2``.

    Past ``T_max`` it rises again, to ``base`` at ``2 · T_max``; `optax.cosine_decay_schedule`, the same up to there,
    stays down.
    """

    def schedule(count: jax.typing.ArrayLike) -> jax.Array:
        # The remainder keeps float32 exact where the count is large.
        phase = as_float(jnp.asarray(count) % (2 * T_max)) / T_max
        return eta_min + (base - eta_min) * (1 + jnp.cos(jnp.pi * phase)) / 2

    return schedule


def cosine_annealing_warm_restarts(base: float, T_0: int, T_mult: int = 1, eta_min: float = 0.0) -> Schedule:
    """CosineAnnealingWarmRestarts: from ``base`` down to ``eta_min`` in ``T_0`` steps, then again from ``base``.

    Each cycle is ``T_mult`` times as long as the one before. `optax.sgdr_schedule` is the same for a fixed number of
    cycles, and stays down after them.
    """
    starts = _starts(T_0, T_mult)

    def schedule(count: jax.typing.ArrayLike) -> jax.Array:
        count = jnp.asarray(count)
        if T_mult == 1:
            passed, length = count % T_0, jnp.asarray(T_0)
        else:
            cycle = jnp.sum(count >= jnp.asarray(starts[1:], jnp.int32))
            passed = count - jnp.asarray(starts, jnp.int32)[cycle]
            # Not the power of T_mult itself, which would leave int32 after the last start.
            length = jnp.asarray([T_0 * T_mult**number for number in range(len(starts))], float)[cycle]
        return eta_min + (base - eta_min) * (1 + jnp.cos(jnp.pi * as_float(passed) / length)) / 2

    return schedule


def _starts(T_0: int, T_mult: int) -> list[int]:
    """Every count that a cycle starts at, as far as an int32 counts."""
    starts, length = [0], T_0
    while T_mult > 1 and starts[-1] + length <= np.iinfo(np.int32).max:
        starts.append(starts[-1] + length)
        length *= T_mult
    return starts
