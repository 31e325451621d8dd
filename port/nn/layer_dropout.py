"""Dropout with a different rate in each layer of a stack."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from port.nn.per_layer import PerLayer
from port.nn.random_stream import draw_key


class LayerDropout(nnx.Dropout):
    """`flax.nnx.Dropout` with a `PerLayer` rate: `stacked` makes it from dropouts whose rates differ.

    Rates are strictly between 0 and 1: a layer with rate 0 draws no random numbers, and so cannot be in the stack.
    """

    rate: PerLayer[Any]  # type: ignore[assignment]

    def __call__(
        self,
        inputs: jax.Array,
        *,
        deterministic: bool | None = None,
        rngs: nnx.Rngs | nnx.RngStream | jax.Array | None = None,
    ) -> jax.Array:
        """Drop elements as `flax.nnx.Dropout` does."""
        if self.deterministic if deterministic is None else deterministic:
            return inputs
        key = draw_key(rngs, self.rngs, self.rng_collection, type(self).__name__)
        kept = 1 - self.rate[...]
        shape = list(inputs.shape)
        for axis in self.broadcast_dims:
            shape[axis] = 1
        return jnp.where(jax.random.bernoulli(key, kept, tuple(shape)), inputs / kept, 0)
