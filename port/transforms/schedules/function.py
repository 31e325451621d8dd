"""Schedules from a Python function: a rate that a training loop sets by hand, LambdaLR, MultiplicativeLR."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from operator import mul
from typing import Any

import jax
import jax.numpy as jnp

from port.errors import UsageError
from port.transforms.schedules.count import Schedule
from port.transforms.schedules.table import tabulated

RateOfStep = Callable[[Any], Any]
"""From a step, counted from 0, to a number."""


def by_function(function: RateOfStep, steps: int | None = None) -> Schedule:
    """A schedule with a function's value for each step.

    Args:
        function: of the step. Without ``steps`` it is traced by JAX: plain arithmetic or ``jnp``, no ``if`` on the step
            and no ``math``.
        steps: for how many steps the function is called and its values kept; any function will do then.

    Raises:
        UsageError: ``steps`` below 1; from the schedule, of a count beyond them.
    """
    return lambda_lr(1.0, function, steps)


def lambda_lr(base: float, lr_lambda: RateOfStep, steps: int | None = None) -> Schedule:
    """torch.optim.lr_scheduler.LambdaLR: base · lr_lambda(step). The arguments are `by_function`'s."""
    if steps is not None:
        return tabulated([base * float(lr_lambda(step)) for step in range(_at_least_1(steps))])

    def schedule(count: jax.typing.ArrayLike) -> jax.Array:
        # int64 under x64: divided as an int32, a count would become float32 under both.
        return jnp.asarray(base * lr_lambda(jnp.asarray(count, int)), float)

    return schedule


def multiplicative_lr(base: float, lr_lambda: RateOfStep, steps: int) -> Schedule:
    """torch.optim.lr_scheduler.MultiplicativeLR: base · lr_lambda(1) · … · lr_lambda(step).

    Args:
        base: the first step's rate.
        lr_lambda: from a step to what the rate before it is multiplied by.
        steps: for how many steps the function is called and its values kept.

    Raises:
        UsageError: ``steps`` below 1; from the schedule, of a count beyond them.
    """
    factors = (float(lr_lambda(step)) for step in range(1, _at_least_1(steps)))
    return tabulated(list(accumulate(factors, mul, initial=base)))


def _at_least_1(steps: int) -> int:
    if steps < 1:
        raise UsageError(f"a schedule from a function needs at least 1 step, got steps={steps}")
    return steps
