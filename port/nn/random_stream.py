"""Where a layer's random numbers come from, as flax.nnx.Dropout has it."""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx

from port.errors import UsageError

Stream = nnx.Rngs | nnx.RngStream | jax.Array | None


def own_stream(rngs: nnx.Rngs | nnx.RngStream | None, collection: str) -> Any:
    """What a layer keeps of the ``rngs`` that it is built with: a stream of its own, or nothing."""
    if rngs is None:
        return nnx.data(None)
    return (rngs[collection] if isinstance(rngs, nnx.Rngs) else rngs).fork()


def draw_key(given: Stream, own: nnx.RngStream | None, collection: str, layer: str) -> jax.Array:
    """The key for one draw: from what the call was given, a key itself perhaps, or else from the layer's stream.

    Raises:
        UsageError: neither is there.
    """
    source = own if given is None else given
    if source is None:
        raise UsageError(f"{layer} draws random numbers and has no rngs: pass them when it is built, or at the call")
    if isinstance(source, jax.Array):
        return source
    return (source[collection] if isinstance(source, nnx.Rngs) else source)()
