"""Leaky ReLU with random slopes."""

from __future__ import annotations

import jax
from flax import nnx

from port.errors import UsageError
from port.nn.functional.activation import leaky_relu
from port.nn.random_stream import Stream, draw_key, own_stream


class RReLU(nnx.Module):
    """torch.nn.RReLU: x where x > 0, else slope · x; any shape in, the same out.

    In training each element gets its own slope, uniform in [lower, upper): JAX's draw, not torch's. In evaluation the
    slope is the mean of the two. Source: torch.nn.RReLU's documentation.

    Args:
        lower: the smallest slope.
        upper: the largest slope.
        deterministic: evaluation mode; set by ``model.eval()`` and ``model.train()``.
        rng_collection: the stream's name.
        rngs: source of the slopes; may be passed at the call instead.

    Raises:
        UsageError: lower above upper; at the call in training, no rngs.
    """

    def __init__(
        self,
        lower: float = 1 / 8,
        upper: float = 1 / 3,
        *,
        deterministic: bool = False,
        rng_collection: str = "dropout",
        rngs: nnx.Rngs | nnx.RngStream | None = None,
    ) -> None:
        if lower > upper:
            raise UsageError(f"RReLU draws slopes from lower to upper, got {lower} and {upper}")
        self.lower = lower
        self.upper = upper
        self.deterministic = deterministic
        self.rng_collection = rng_collection
        self.rngs = own_stream(rngs, rng_collection)

    def __call__(self, input: jax.Array, *, deterministic: bool | None = None, rngs: Stream = None) -> jax.Array:
        """Apply RReLU. ``rngs`` may also be a key; arguments here override those of the constructor."""
        if self.deterministic if deterministic is None else deterministic:
            return leaky_relu(input, (self.lower + self.upper) / 2)
        key = draw_key(rngs, self.rngs, self.rng_collection, type(self).__name__)
        return leaky_relu(input, jax.random.uniform(key, input.shape, input.dtype, self.lower, self.upper))

    def set_view(self, deterministic: bool | None = None) -> None:
        """Called by `nnx.view`."""
        if deterministic is not None:
            self.deterministic = deterministic
