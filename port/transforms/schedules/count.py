"""What the schedules share: counts as numbers, powers of them, and the end of what is defined."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from port.errors import UsageError

# From the number of updates made so far (an int32 scalar; 0 at torch's first step) to the value for the next one.
Schedule = Callable[[jax.typing.ArrayLike], jax.Array]


def as_float(count: jax.typing.ArrayLike) -> jax.Array:
    """A count as float64 under x64, float32 otherwise: divided as an int32 it would become float32 under both."""
    return jnp.asarray(count).astype(float)


def power(base: float, exponent: jax.typing.ArrayLike) -> jax.Array:
    """``base`` to a whole exponent.

    A base near 1 loses in float32 what a large exponent then shows; its logarithm, taken here in float64, does not.
    """
    if base > 0:
        return jnp.exp(as_float(exponent) * np.log(base).item())
    return jnp.asarray(base, float) ** exponent


def ending(schedule: Schedule, last: int, message: str) -> Schedule:
    """A schedule that is defined up to some count and rejects a later one.

    A concrete count is rejected at once; a traced one when the compiled program reaches it: a branch that is not
    entered before then calls back into Python, and nothing else of the schedule touches the host.

    Args:
        schedule: the schedule; for a later count, it may return anything.
        last: the last count that it is defined for.
        message: the error's message, with ``{count}`` for the count.

    Raises:
        UsageError: the count is beyond; a compiled program's arrives inside an error of jax's, with the same message.
    """

    def refuse(count: jax.typing.ArrayLike, value: jax.typing.ArrayLike) -> jax.typing.ArrayLike:
        # Under vmap both branches run, so the count has to be looked at again.
        if np.any(np.asarray(count) > last):
            raise UsageError(message.format(count=int(np.max(np.asarray(count)))))
        return value

    def ended(count: jax.typing.ArrayLike) -> jax.Array:
        value = jnp.asarray(schedule(count))
        if not isinstance(count, jax.core.Tracer):
            refuse(count, value)
            return value
        shape = jax.ShapeDtypeStruct(value.shape, value.dtype)
        return jax.lax.cond(
            count > last,
            lambda: jax.pure_callback(refuse, shape, count, value, vmap_method="expand_dims"),
            lambda: value,
        )

    return ended
