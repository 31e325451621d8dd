"""A small language model with caches, and the same without: each position by itself, from all tokens up to it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from port.nn import TokenCache

VOCABULARY, WIDTH, HEADS, SHARED = 23, 12, 4, 2
"""Of tokens, features, heads of queries, and heads of keys, each of which is that of two of queries."""


class Attention(nnx.Module):
    """Attention over the last tokens, whose keys and values go through a cache."""

    def __init__(
        self, room: int, window: int | None, fault: str, caches: bool, ring: int | None, rngs: nnx.Rngs
    ) -> None:
        options: Any = {"rngs": rngs, "param_dtype": jnp.float64, "kernel_init": nnx.initializers.normal(0.6)}
        self.query = nnx.LinearGeneral(WIDTH, (HEADS, 3), **options)
        self.key = nnx.LinearGeneral(WIDTH, (SHARED, 3), **options)
        self.value = nnx.LinearGeneral(WIDTH, (SHARED, 5), **options)
        self.out = nnx.LinearGeneral((HEADS, 5), WIDTH, axis=(-2, -1), **options)
        self.window, self.room, self.fault = window, room, fault
        if caches:
            self.key_cache, self.value_cache = TokenCache(ring), TokenCache(ring)

    def __call__(
        self, x: jax.Array, position: jax.Array | int, places: jax.Array | None, window_positions: jax.Array | None
    ) -> jax.Array:
        query, key, value = (f(x).swapaxes(1, 2) for f in (self.query, self.key, self.value))
        if places is not None:
            place = position - (self.fault == "place" and x.shape[1] == 1)
            at = place, places, window_positions
            key, value = self.key_cache(key, *at), self.value_cache(value, *at)
        here, there = jnp.arange(x.shape[1])[:, None] + position, jnp.arange(key.shape[2])
        if places is not None and self.key_cache.window is not None:
            assert window_positions is not None
            there = window_positions
        seen = (there <= here) & (here - there < (self.window or self.room))
        if self.fault == "future" and places is not None:
            seen = seen | (there > here)
        key, value = (jnp.repeat(each, HEADS // SHARED, axis=1) for each in (key, value))
        weights = jax.nn.softmax(jnp.where(seen, query @ key.mT, -jnp.inf), axis=-1)
        return self.out((weights @ value).swapaxes(1, 2))


class Model(nnx.Module):
    """Two layers, one of them with a window; positions have embeddings of their own. A fault may be planted.

    Args:
        room: positions with an embedding.
        window: of the second layer.
        fault: which one is planted.
        caches: whether the layers have caches.
        ring: the places of the second layer's caches; None for all.
    """

    def __init__(
        self, room: int, *, window: int = 5, fault: str = "", caches: bool = True, ring: int | None = None
    ) -> None:
        rngs = nnx.Rngs(0)
        options: Any = {"rngs": rngs, "param_dtype": jnp.float64}
        self.tokens = nnx.Embed(VOCABULARY, WIDTH, **options)
        self.positions = nnx.Embed(room, WIDTH, **options)
        kinds = ((None, None), (window, ring))
        self.layers = nnx.List([Attention(room, seen, fault, caches, kept, rngs) for seen, kept in kinds])
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.head = nnx.Linear(WIDTH, VOCABULARY, kernel_init=nnx.initializers.normal(0.6), **options)

    def __call__(
        self,
        ids: jax.Array,
        position: jax.Array | int = 0,
        places: jax.Array | None = None,
        window_positions: jax.Array | None = None,
    ) -> jax.Array:
        x = self.tokens(ids) + self.positions(jnp.arange(ids.shape[1]) + position)
        for layer in self.layers:
            x = x + self.dropout(layer(x, position, places, window_positions))
        return self.head(x)


@nnx.jit
def whole(model: Model, ids: jax.Array) -> jax.Array:
    """Logits at all positions, without a cache."""
    return nnx.view(model, deterministic=True)(ids)
