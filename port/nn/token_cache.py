"""What an attention layer has made of the tokens so far: their keys, or their values."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx


class TokenCache(nnx.Module):
    """Room for tokens: some are written where they stand, and all places are given.

    A place that no token was written to is 0; the layer's mask hides it. A new cache keeps nothing, so that each call
    finds it empty: `hold` makes it keep what comes.
    """

    def __init__(self, *, dtype: Any = None, param_dtype: Any = None, rngs: Any = None) -> None:
        self.is_held = False
        self.tokens: nnx.Cache[jax.Array] | None = nnx.data(None)

    def hold(self, tokens: jax.Array | None = None) -> None:
        """Keep what comes from now on, behind what is given.

        Args:
            tokens: what `held` of a cache like this one was; by default it is empty.
        """
        self.is_held = True
        self.tokens = nnx.data(None if tokens is None else nnx.Cache(tokens))

    @property
    def held(self) -> jax.Array:
        """Its array, behind a call."""
        assert self.tokens is not None, "a cache holds what a call has written, after hold()"
        return self.tokens[...]

    def __call__(self, tokens: jax.Array, position: jax.Array | int, places: jax.Array) -> jax.Array:
        """Write tokens, and give all places.

        Args:
            tokens: (…, tokens, features).
            position: of the first of these tokens; the others follow it.
            places: (places,), one for each token that there is room for.

        Returns:
            (…, places, features). Tokens that there is no room for are left out.
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
