"""CyclicLR: up and down in a triangle, over and over (`torch/optim/lr_scheduler.py`, ``CyclicLR.get_lr``)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from port.errors import UnknownChoice
from port.transforms.schedules.count import Schedule, as_float, power

_MODES = ("triangular", "triangular2", "exp_range")


def cyclic_lr(
    base_lr: float,
    max_lr: float,
    *,
    step_size_up: float = 2000,
    step_size_down: float | None = None,
    mode: str = "triangular",
    gamma: float = 1.0,
) -> Schedule:
    """CyclicLR's rate: from ``base_lr`` up to ``max_lr`` in ``step_size_up`` steps, down in ``step_size_down``.

    Args:
        base_lr: the lower end.
        max_lr: the upper end of the first cycle.
        step_size_up: steps upwards.
        step_size_down: steps downwards; by default as many.
        mode: how the triangle's height goes on: ``"triangular"`` as it is, ``"triangular2"`` halved every cycle,
            ``"exp_range"`` times ``gamma`` every step. For a function of one's own: `tabulated`.
        gamma: see ``mode``.

    Raises:
        UnknownChoice: no such mode.
    """
    height = _height(step_size_up, step_size_down, mode, gamma)
    return lambda count: base_lr + (max_lr - base_lr) * height(count)


def cyclic_momentum(
    base_momentum: float = 0.8,
    max_momentum: float = 0.9,
    *,
    step_size_up: float = 2000,
    step_size_down: float | None = None,
    mode: str = "triangular",
    gamma: float = 1.0,
) -> Schedule:
    """CyclicLR's momentum, or Adam's b1: the rate's triangle upside down, from ``max_momentum``. Arguments as there."""
    height = _height(step_size_up, step_size_down, mode, gamma)
    return lambda count: max_momentum - (max_momentum - base_momentum) * height(count)


def _height(up: float, down: float | None, mode: str, gamma: float) -> Schedule:
    """The triangle's height at a count, the first one's being 1."""
    if mode not in _MODES:
        raise UnknownChoice("mode of a cyclic schedule", mode, _MODES)
    length = up + (up if down is None else down)
    whole = float(length).is_integer()

    def height(count: jax.typing.ArrayLike) -> jax.Array:
        count = jnp.asarray(count)
        cycle, place = jnp.divmod(count, int(length)) if whole else jnp.divmod(as_float(count), length)
        passed = as_float(place)
        # One of the two sides may have no steps at all; its quotient is not looked at.
        triangle = jnp.where(passed <= up, passed / max(up, 1e-30), (length - passed) / max(length - up, 1e-30))
        if mode == "triangular2":
            return triangle * power(0.5, cycle)
        return triangle * power(gamma, count) if mode == "exp_range" else triangle

    return height
