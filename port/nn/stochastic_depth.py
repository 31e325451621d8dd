"""torchvision's stochastic depth: drops a residual branch's whole output, for each sample or for the batch."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx

from port.errors import UsageError
from port.nn.dropout import Dropping

_MODES = ("row", "batch")


class StochasticDepth(Dropping):
    """torchvision.ops.StochasticDepth; any shape in, (N, …), the same out.

    Evaluation returns the input unchanged. In training, kept samples are divided by 1 − rate; the mask is JAX's own,
    not torch's.

    Source: Huang and others, "Deep Networks with Stochastic Depth", 2016.

    Args:
        rate: the probability of dropping.
        mode: ``"row"`` drops each sample independently, ``"batch"`` all of them together.
        deterministic: evaluation mode; set by ``model.eval()`` and ``model.train()``.
        rng_collection: the stream's name.
        rngs: source of the masks; may be passed at the call instead.

    Raises:
        UsageError: a rate outside [0, 1], an unknown mode; at the call in training, no rngs.
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
        if mode not in _MODES:
            raise UsageError(f"mode must be one of {', '.join(_MODES)}, got {mode!r}")
        super().__init__(rate, deterministic=deterministic, rng_collection=rng_collection, rngs=rngs)
        self.mode = mode

    def _mask_shape(self, input: jax.Array) -> tuple[int, ...]:
        return (input.shape[0] if self.mode == "row" else 1, *(1,) * (input.ndim - 1))

    def _masked(self, input: jax.Array, keep: jax.Array) -> jax.Array:
        return jnp.where(keep, input / (1 - self.rate), 0)
