"""The keys or values of the tokens that an attention layer has read so far."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx


class TokenCache(nnx.Module):
    """A key or value cache of fixed size.

    Without a window, it keeps every token, each at its position. With a window of w tokens, it is a ring: it keeps
    the last w tokens, each at its position modulo w. A place that no token was written to is 0; the layer's mask
    hides it.

    A new cache keeps nothing, so that every call starts empty; after `hold` it keeps what it is called with.

    Args:
        window: how many tokens a query of the layer sees, itself included; None for all.
        dtype: unused; every layer takes it.
        param_dtype: unused.
        rngs: unused.
    """

    def __init__(
        self, window: int | None = None, *, dtype: Any = None, param_dtype: Any = None, rngs: Any = None
    ) -> None:
        self.window = window
        self.is_held = False
        self.count: jax.Array | None = nnx.data(None)
        self.tokens: nnx.Cache[jax.Array] | None = nnx.data(None)

    def hold(self, tokens: jax.Array | None = None, *, count: jax.Array | None = None) -> None:
        """Keep the tokens of all further calls.

        Args:
            tokens: `held` of a cache like this one, to continue from; by default the cache is empty.
            count: how many tokens of a call are text, if padding follows them; by default all. A ring does not keep
                padding, which would overwrite text.
        """
        self.is_held = True
        self.count = nnx.data(count)
        self.tokens = nnx.data(None if tokens is None else nnx.Cache(tokens))

    @property
    def held(self) -> jax.Array:
        """The cache's array after a call, (…, places, features)."""
        assert self.tokens is not None, "a cache holds what a call has written, after hold()"
        return self.tokens[...]

    def __call__(
        self,
        tokens: jax.Array,
        position: jax.Array | int,
        places: jax.Array,
        window_positions: jax.Array | None = None,
    ) -> jax.Array:
        """Write tokens into the cache and return what the layer attends to.

        Args:
            tokens: (…, tokens, features).
            position: of the first of these tokens; the others follow it.
            places: (places,), one for each token that the cache has room for.
            window_positions: (keys,), the positions of the tokens to return, from `window_positions`. Only a cache
                with a window reads it.

        Returns:
            (…, places, features), or with a window (…, keys, features). Tokens beyond the last place are left out.
        """
        if self.window is not None:
            assert window_positions is not None, "a cache with a window is called with window_positions"
            if not self.is_held:
                return _at(tokens, position, window_positions)
            return self._ring(tokens, position, min(self.window, len(places)))
        *before, _, features = tokens.shape
        room = len(places)
        empty = jnp.zeros((*before, room, features), tokens.dtype)
        written = jax.lax.dynamic_update_slice_in_dim(
            empty if self.tokens is None else self.tokens[...], tokens[..., :room, :], position, axis=-2
        )
        if self.is_held:
            self.hold(written)
        return written

    def _ring(self, tokens: jax.Array, position: jax.Array | int, size: int) -> jax.Array:
        *before, count, features = tokens.shape
        is_empty = self.tokens is None
        ring = jnp.zeros((*before, size, features), tokens.dtype) if is_empty else self.held
        if count == 1:
            written = jax.lax.dynamic_update_slice_in_dim(ring, tokens, position % size, axis=-2)
            self.hold(written)
            return written
        last = position + (count if self.count is None else self.count) - 1
        index = last - (last - jnp.arange(size)) % size - position
        new = jnp.take(tokens, jnp.clip(index, 0, count - 1), axis=-2)
        self.hold(jnp.where((index >= 0)[:, None], new, ring))
        # The first of these tokens see keys that the last of them overwrite.
        return tokens if is_empty else jnp.concatenate([ring, tokens], axis=-2)


def window_positions(position: jax.Array | int, count: int, size: int, *, is_empty: bool) -> jax.Array:
    """Return the positions of the keys that a ring returns for a call.

    One token is written first, and the ring's places are returned: place i holds the last position ≤ ``position``
    that is i modulo ``size``. Several tokens follow the places as they were before the call. An empty ring returns
    several tokens alone. A place that nothing was written to gets the position after the call's last token, which
    causal masks hide.

    Args:
        position: of the call's first token.
        count: how many tokens the call has.
        size: places in the ring.
        is_empty: whether nothing was written to the ring yet.

    Returns:
        (keys,), whole numbers.
    """
    tokens = position + jnp.arange(count)
    if count > 1 and is_empty:
        return tokens
    last = position if count == 1 else position - 1
    held = last - (last - jnp.arange(size)) % size
    held = jnp.where(held < 0, position + count, held)
    return held if count == 1 else jnp.concatenate([held, tokens])


def _at(tokens: jax.Array, position: jax.Array | int, positions: jax.Array) -> jax.Array:
    """Return the tokens at some positions; 0 where a position has none."""
    count = tokens.shape[-2]
    index = positions - position
    found = jnp.take(tokens, jnp.clip(index, 0, count - 1), axis=-2)
    return jnp.where(((index >= 0) & (index < count))[:, None], found, 0)
