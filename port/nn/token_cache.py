"""Cache of an attention layer's keys or values of the tokens so far."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx


class TokenCache(nnx.Module):
    """A buffer for tokens: a call writes some at a position and returns all places.

    Places without a token are 0, and hidden by the layer's mask. A new cache keeps nothing between calls, until `hold`
    is called.
    """

    def __init__(self, *, dtype: Any = None, param_dtype: Any = None, rngs: Any = None) -> None:
        self.is_held = False
        self.tokens: nnx.Cache[jax.Array] | None = nnx.data(None)

    def hold(self, tokens: jax.Array | None = None) -> None:
        """Start to keep tokens between calls.

        Args:
            tokens: the `held` array of an equal cache, to continue from; empty by default.
        """
        self.is_held = True
        self.tokens = nnx.data(None if tokens is None else nnx.Cache(tokens))

    @property
    def held(self) -> jax.Array:
        """The array after a call."""
        assert self.tokens is not None, "a cache holds what a call has written, after hold()"
        return self.tokens[...]

    def __call__(self, tokens: jax.Array, position: jax.Array | int, places: jax.Array) -> jax.Array:
        """Write tokens, and return all places.

        Args:
            tokens: (…, tokens, features).
            position: of the first of these tokens.
            places: (places,); its length is the number of tokens that fit.

        Returns:
            (…, places, features). Tokens that do not fit are dropped.
        """
        *before, _, features = tokens.shape
        room = len(places)
        empty = jnp.zeros((*before, room, features), tokens.dtype)
        written = jax.lax.dynamic_update_slice_in_dim(
            empty if self.tokens is None else self.tokens[...], tokens[..., :room, :], position, axis=-2
        )
        if self.is_held:
            self.hold(written)
        return written
