"""Random streams of layers, with the conventions of flax.nnx.Dropout."""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx

from port.errors import UsageError

Stream = nnx.Rngs | nnx.RngStream | jax.Array | None


def own_stream(rngs: nnx.Rngs | nnx.RngStream | None, collection: str) -> Any:
    """Fork a layer's own stream off the ``rngs`` of its constructor; None without them."""
    if rngs is None:
        return nnx.data(None)
    return (rngs[collection] if isinstance(rngs, nnx.Rngs) else rngs).fork()


def draw_key(passed: Stream, own: nnx.RngStream | None, collection: str, layer: str) -> jax.Array:
    """Return the key for one draw: from the ``rngs`` of the call, which may be a key, or else from the layer's stream.

    Raises:
        UsageError: there is neither.
    """
    source = own if passed is None else passed
    if source is None:
        raise UsageError(f"{layer} draws random numbers and has no rngs: pass them to the constructor, or at the call")
    if isinstance(source, jax.Array):
        return source
    return (source[collection] if isinstance(source, nnx.Rngs) else source)()
