"""Dropouts that Flax lacks. torch.nn.Dropout is flax.nnx.Dropout; Dropout1d, 2d and 3d add broadcast_dims."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from flax import nnx

from port.errors import UsageError
from port.nn.per_layer import PerLayer
from port.nn.random_stream import Stream, draw_key, own_stream

_DROPPED = -1.7580993408473766
"""SELU's limit at −∞, −scale · alpha: what an element becomes when it is dropped, before the affine map."""


def alpha_dropout(input: jax.Array, keep: jax.Array, rate: float) -> jax.Array:
    """a · (x where ``keep``, else −1.758) + b, with the a and b that preserve mean 0 and variance 1.

    Source: Klambauer and others, "Self-normalizing neural networks", 2017; torch.nn.AlphaDropout.

    Args:
        input: any shape and float dtype.
        keep: bool, of a shape that broadcasts to input's.
        rate: the probability of dropping an element, 0 to 1. At 1 everything is 0, as in torch.
    """
    if rate == 1:
        return jnp.zeros_like(input)
    a = 1 / math.sqrt((1 - rate) * (1 + rate * _DROPPED**2))
    return jnp.where(keep, a * input - a * rate * _DROPPED, a * (1 - rate) * _DROPPED)


class Dropping(nnx.Module):
    """Base class of dropouts: the mode, the random stream, and the mask of the elements that are kept.

    Args:
        rate: the probability of dropping an element.
        deterministic: evaluation mode; set by ``model.eval()`` and ``model.train()``.
        rng_collection: the stream's name.
        rngs: source of the masks; may be passed at the call instead.

    Raises:
        UsageError: a rate outside [0, 1]; at the call in training, no rngs.
    """

    def __init__(
        self,
        rate: float = 0.5,
        *,
        deterministic: bool = False,
        rng_collection: str = "dropout",
        rngs: nnx.Rngs | nnx.RngStream | None = None,
    ) -> None:
        if not 0 <= rate <= 1:
            raise UsageError(f"a dropout rate is from 0 to 1, got {rate}")
        self.rate = rate
        self.deterministic = deterministic
        self.rng_collection = rng_collection
        self.rngs = own_stream(rngs, rng_collection)

    def __call__(self, input: jax.Array, *, deterministic: bool | None = None, rngs: Stream = None) -> jax.Array:
        """Drop elements. ``rngs`` may also be a key; arguments here override those of the constructor."""
        if self.deterministic if deterministic is None else deterministic:
            return input
        is_one = not isinstance(self.rate, PerLayer)  # in a stack no layer has rate 0 or 1
        if is_one and self.rate == 0:
            return input
        if is_one and self.rate == 1:
            return jnp.zeros_like(input)
        key = draw_key(rngs, self.rngs, self.rng_collection, type(self).__name__)
        return self._masked(input, jax.random.bernoulli(key, 1 - self.rate, self._mask_shape(input)))

    def _mask_shape(self, input: jax.Array) -> tuple[int, ...]:
        return input.shape

    def _masked(self, input: jax.Array, keep: jax.Array) -> jax.Array:
        """Apply the mask ``keep``, broadcast to the input."""
        raise NotImplementedError

    def set_view(self, deterministic: bool | None = None) -> None:
        """Called by `nnx.view`."""
        if deterministic is not None:
            self.deterministic = deterministic


class AlphaDropout(Dropping):
    """torch.nn.AlphaDropout; any shape in, the same out. Arguments and errors are those of `Dropping`.

    Evaluation returns the input unchanged. In training the mask is JAX's own, not torch's.
    """

    def _masked(self, input: jax.Array, keep: jax.Array) -> jax.Array:
        return alpha_dropout(input, keep, self.rate)


class FeatureAlphaDropout(AlphaDropout):
    """torch.nn.FeatureAlphaDropout, channels last: drops whole channels of (N, *spatial, C); else as `AlphaDropout`."""

    def _mask_shape(self, input: jax.Array) -> tuple[int, ...]:
        if input.ndim < 2:
            raise UsageError(f"FeatureAlphaDropout takes (N, *spatial, C), got shape {input.shape}")
        return (input.shape[0], *(1,) * (input.ndim - 2), input.shape[-1])
