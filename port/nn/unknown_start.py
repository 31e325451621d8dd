"""What stands where nobody can say how a parameter starts: a new model raises there, one that is loaded does not."""

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
    """A model that is built inside gets all of its values afterwards: what has no initial value is zeros until then."""
    token = _filled_later.set(True)
    try:
        yield
    finally:
        _filled_later.reset(token)


def unknown_start(name: str, why: str) -> jax.nn.initializers.Initializer:
    """The initializer of a parameter whose initial values the original's code does not tell.

    It raises `NoInitialValue` when it is drawn, under ``jax.jit`` when that runs; not under `nnx.eval_shape`, and not
    in `filled_later`.

    Args:
        name: of the parameter.
        why: a clause that goes on with "it".
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
    """Zeros where values are filled in later; otherwise an error when they would be there.

    Raises:
        NoInitialValue: with the message.
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
