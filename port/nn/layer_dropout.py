"""Dropout whose rate is another one in each layer of a stack."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from port.nn.per_layer import PerLayer
from port.nn.random_stream import draw_key


class LayerDropout(nnx.Dropout):
    """`flax.nnx.Dropout` with a `PerLayer` rate: what `stacked` makes of dropouts whose rates differ.

    The rates are between 0 and 1, and neither: a layer that drops nothing draws nothing, and so is no such layer.
    """

    rate: PerLayer[Any]  # type: ignore[assignment]

    def __call__(
        self,
        inputs: jax.Array,
        *,
        deterministic: bool | None = None,
        rngs: nnx.Rngs | nnx.RngStream | jax.Array | None = None,
    ) -> jax.Array:
        """As `flax.nnx.Dropout` does it."""
        if self.deterministic if deterministic is None else deterministic:
            return inputs
        key = draw_key(rngs, self.rngs, self.rng_collection, type(self).__name__)
        kept = 1 - self.rate[...]
        shape = list(inputs.shape)
        for axis in self.broadcast_dims:
            shape[axis] = 1
        return jnp.where(jax.random.bernoulli(key, kept, tuple(shape)), inputs / kept, 0)
