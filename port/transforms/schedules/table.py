"""A schedule that is written out: for any that has no formula, as LambdaLR and MultiplicativeLR."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from port.errors import UsageError
from port.transforms.schedules.count import Schedule, ending


def tabulated(values: Any) -> Schedule:
    """The value of each step, one after another.

    Args:
        values: (steps,) numbers; the first is that of count 0.

    Raises:
        UsageError: the values are not one row of at least one number; from the schedule, of a count beyond them.
    """
    table = np.asarray(values, np.float64)
    if table.ndim != 1 or len(table) == 0:
        raise UsageError(f"a schedule's table is one row of numbers, got an array of shape {table.shape}")

    def schedule(count: jax.typing.ArrayLike) -> jax.Array:
        return jnp.asarray(table, float)[jnp.minimum(jnp.asarray(count), len(table) - 1)]

    message = f"the schedule is tabulated for {len(table)} steps; step {{count}} is beyond: tabulate more of them"
    return ending(schedule, len(table) - 1, message)
