"""SWALR: to one rate, and staying there (`torch/optim/swa_utils.py`, ``SWALR.get_lr``)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from port.errors import UnknownChoice
from port.transforms.schedules.count import Schedule, as_float


def swa_lr(base: float, swa_lr: float, anneal_epochs: int = 10, anneal_strategy: str = "cos") -> Schedule:
    """SWALR: from ``base`` to ``swa_lr`` in ``anneal_epochs`` steps (at once if there are none), then staying.

    Args:
        base: the group's rate when SWALR starts; torch reads it from the group.
        swa_lr: the final rate.
        anneal_epochs: the steps between.
        anneal_strategy: ``"cos"`` or ``"linear"``.

    Raises:
        UnknownChoice: another strategy.
    """
    if anneal_strategy not in ("cos", "linear"):
        raise UnknownChoice("anneal_strategy", anneal_strategy, ("cos", "linear"))

    def schedule(count: jax.typing.ArrayLike) -> jax.Array:
        passed = as_float(jnp.minimum(jnp.asarray(count), anneal_epochs)) / anneal_epochs if anneal_epochs else 1.0
        share = (1 - jnp.cos(jnp.pi * jnp.asarray(passed, float))) / 2 if anneal_strategy == "cos" else passed
        return jnp.asarray(swa_lr * share + base * (1 - share), float)

    return schedule
