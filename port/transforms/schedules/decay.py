"""Schedules that multiply: StepLR, MultiStepLR, ConstantLR, LinearLR, ExponentialLR, PolynomialLR.

torch (`torch/optim/lr_scheduler.py`) multiplies the group's rate by one ratio a step; these are the products, which
are its own ``_get_closed_form_lr``. They differ only by torch's rounding, some 1e-16 per step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import optax

from port.transforms.schedules.count import Schedule, as_float, power


def step_lr(base: float, step_size: int, gamma: float = 0.1) -> Schedule:
    """StepLR: ``base · gamma^⌊count / step_size⌋``.

    `optax.exponential_decay` with ``staircase`` is 1e-8 off: it divides in float32, also under x64.
    """
    return lambda count: base * power(gamma, jnp.asarray(count) // step_size)


def multi_step_lr(base: float, milestones: Sequence[int], gamma: float = 0.1) -> Schedule:
    """MultiStepLR: ``base · gamma^n``, n the milestones that the count has reached; one listed twice counts twice.

    It is `optax.piecewise_constant_schedule`.
    """
    scales = {milestone: gamma**times for milestone, times in Counter(milestones).items()}
    schedule: Schedule = optax.piecewise_constant_schedule(base, scales)
    return schedule


def constant_lr(base: float, factor: float = 1 / 3, total_iters: int = 5) -> Schedule:
    """ConstantLR: ``base · factor`` for ``total_iters`` steps, then ``base``.

    For ever if ``total_iters`` is 0, since torch removes the factor at that step, which the first one has passed.
    """
    if total_iters == 0:
        constant: Schedule = optax.constant_schedule(base * factor)
        return constant
    return lambda count: jnp.where(jnp.asarray(count) < total_iters, jnp.asarray(base * factor, float), base)


def linear_lr(base: float, start_factor: float = 1 / 3, end_factor: float = 1.0, total_iters: int = 5) -> Schedule:
    """LinearLR: ``base · f``, where f goes from ``start_factor`` to ``end_factor`` in ``total_iters`` steps, and stays.

    Without steps f stays at ``start_factor``.

    `optax.linear_schedule` is 8e-8 off: it divides in float32, also under x64.
    """

    def schedule(count: jax.typing.ArrayLike) -> jax.Array:
        passed = as_float(jnp.minimum(jnp.asarray(count), total_iters)) / max(total_iters, 1)
        return base * (start_factor + (end_factor - start_factor) * passed)

    return schedule


def exponential_lr(base: float, gamma: float) -> Schedule:
    """ExponentialLR: ``base · gamma^count``.

    `optax.exponential_decay` is 4e-7 off after 200 steps: it divides in float32, also under x64.
    """
    return lambda count: base * power(gamma, jnp.asarray(count))


def polynomial_lr(base: float, total_iters: int = 5, power: float = 1.0) -> Schedule:
    """PolynomialLR: ``base · (1 − min(count, total_iters) / total_iters)^power``; ``base`` if ``total_iters`` is 0.

    `optax.polynomial_schedule` is 7e-8 off: it divides in float32, also under x64. From its last step on it can be NaN
    under jit (for 218 of the lengths from 1 to 399, at a power of 1.7): XLA makes the division a product, which exceeds
    1 by a rounding, and a power of what is below zero is no number. Here the difference is taken before the division.
    """
    if total_iters == 0:
        constant: Schedule = optax.constant_schedule(base)
        return constant

    def schedule(count: jax.typing.ArrayLike) -> jax.Array:
        left = as_float(total_iters - jnp.minimum(jnp.asarray(count), total_iters)) / total_iters
        return base * left**power

    return schedule
