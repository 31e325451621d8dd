"""Stochastic depth, torchvision's: a residual branch's whole output drops, a sample's or the batch's."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx

from port.errors import UsageError
from port.nn.random_stream import Stream, draw_key, own_stream

_MODES = ("row", "batch")


class StochasticDepth(nnx.Module):
    """torchvision.ops.StochasticDepth; any shape in, (N, …), the same out.

    Evaluation leaves the input alone. In training what is kept is divided by 1 − rate; the mask is JAX's own, not
    torch's.

    Source: Huang and others, "Deep Networks with Stochastic Depth", 2016.

    Args:
        rate: the share that is dropped.
        mode: ``"row"``: of the batch's samples each drops or stays; ``"batch"``: all of them together.
        deterministic: evaluation mode; set by ``model.eval()`` and ``model.train()``.
        rng_collection: the stream's name.
        rngs: where the masks come from; or given at the call.

    Raises:
        UsageError: a rate outside [0, 1], another mode; at the call in training, no rngs.
    """

    def __init__(
        self,
        rate: float,
        mode: str = "row",
        *,
        deterministic: bool = False,
        rng_collection: str = "dropout",
        rngs: nnx.Rngs | nnx.RngStream | None = None,
    ) -> None:
        if not 0 <= rate <= 1:
            raise UsageError(f"a drop rate is from 0 to 1, got {rate}")
        if mode not in _MODES:
            raise UsageError(f"the mode is one of {', '.join(_MODES)}, got {mode!r}")
        self.rate = rate
        self.mode = mode
        self.deterministic = deterministic
        self.rng_collection = rng_collection
        self.rngs = own_stream(rngs, rng_collection)

    def __call__(self, input: jax.Array, *, deterministic: bool | None = None, rngs: Stream = None) -> jax.Array:
        """``rngs`` may also be a key; what is given here goes before what the layer was built with."""
        if self.rate == 0 or (self.deterministic if deterministic is None else deterministic):
            return input
        if self.rate == 1:
            return jnp.zeros_like(input)
        key = draw_key(rngs, self.rngs, self.rng_collection, type(self).__name__)
        rows = input.shape[0] if self.mode == "row" else 1
        keep = jax.random.bernoulli(key, 1 - self.rate, (rows, *(1,) * (input.ndim - 1)))
        return jnp.where(keep, input / (1 - self.rate), 0)

    def set_view(self, deterministic: bool | None = None) -> None:
        """Called by `nnx.view`."""
        if deterministic is not None:
            self.deterministic = deterministic
