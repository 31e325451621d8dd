"""Initializers of parameters with unknown initial values: a new model raises, a loaded one does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp

from port.errors import NoInitialValue

_filled_later: ContextVar[bool] = ContextVar("_filled_later", default=False)


@contextmanager
def filled_later() -> Iterator[None]:
    """Context manager to build a model whose values are all loaded afterwards: unknown initial values are zeros."""
    token = _filled_later.set(True)
    try:
        yield
    finally:
        _filled_later.reset(token)


def unknown_start(name: str, why: str) -> jax.nn.initializers.Initializer:
    """Return the initializer of a parameter whose initial values the original's code does not define.

    It raises `NoInitialValue` when it is called, under ``jax.jit`` at run time; not under `nnx.eval_shape`, nor within
    `filled_later`.

    Args:
        name: of the parameter.
        why: the reason, a clause for the error message.
    """

    def initialize(
        key: jax.Array, shape: Sequence[int], dtype: Any = jnp.float32, out_sharding: Any = None
    ) -> jax.Array:
        return missing(
            f"{name} has no initial value: {why}. Load weights (load(), or nnx.eval_shape and then the weights), or "
            f'write an initializer in the place of unknown_start("{name}", …)',
            shape,
            dtype,
        )

    return initialize


def missing(message: str, shape: Sequence[int], dtype: Any) -> jax.Array:
    """Return zeros within `filled_later` or a trace; otherwise raise.

    Raises:
        NoInitialValue: with the message; under ``jax.jit`` at run time.
    """
    zeros = jnp.zeros(shape, dtype)
    if _filled_later.get():
        return zeros
    if not isinstance(zeros, jax.core.Tracer):
        raise NoInitialValue(message)

    def fail() -> Any:
        raise NoInitialValue(message)

    # Traced: nnx.eval_shape never runs it, jax.jit does.
    return jax.pure_callback(fail, jax.ShapeDtypeStruct(zeros.shape, zeros.dtype))
