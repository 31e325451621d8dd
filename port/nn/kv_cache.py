"""Keys and values of the tokens that an attention layer has seen."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

KeysAndValues = tuple[jax.Array, jax.Array]


class KVCache(nnx.Module):
    """Room for so many tokens' keys and values: tokens are written where they stand, and all places are given.

    A place that no token was written to is 0; the layer's mask hides it. A new cache keeps nothing, so that each call
    finds it empty: `hold` makes it keep what comes.

    Args:
        length: how many tokens there is room for.
    """

    def __init__(self, length: int, *, dtype: Any = None, param_dtype: Any = None, rngs: Any = None) -> None:
        self.length = length
        self.is_held = False
        self.keys: nnx.Cache[jax.Array] | None = nnx.data(None)
        self.values: nnx.Cache[jax.Array] | None = nnx.data(None)

    def hold(self, tokens: KeysAndValues | None = None) -> None:
        """Keep what comes from now on, behind what is given.

        Args:
            tokens: what `held` of a cache like this one was; by default it is empty.
        """
        self.is_held = True
        keys, values = (None, None) if tokens is None else map(nnx.Cache, tokens)
        self.keys, self.values = nnx.data(keys), nnx.data(values)

    @property
    def held(self) -> KeysAndValues:
        """Its arrays, behind a call."""
        assert self.keys is not None and self.values is not None, "a cache holds what a call has written, after hold()"
        return self.keys[...], self.values[...]

    def __call__(self, key: jax.Array, value: jax.Array, position: jax.Array | int) -> KeysAndValues:
        """Write tokens, and give those of all places.

        Args:
            key: (batch, heads, tokens, features of a key).
            value: (batch, heads, tokens, features of a value).
            position: of the first of these tokens; the others follow it.

        Returns:
            keys and values, (batch, heads, length, features).
        """
        keys, values = self._with(self.keys, key, position), self._with(self.values, value, position)
        if self.is_held:
            self.hold((keys, values))
        return keys, values

    def _with(self, held: nnx.Cache[jax.Array] | None, tokens: jax.Array, position: jax.Array | int) -> jax.Array:
        batch, heads, _, features = tokens.shape
        places = jnp.zeros((batch, heads, self.length, features), tokens.dtype) if held is None else held[...]
        return jax.lax.dynamic_update_slice_in_dim(places, tokens, position, axis=2)
