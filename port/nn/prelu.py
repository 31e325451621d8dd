"""PReLU with PyTorch's slopes and its gradient at zero.

flax.nnx.PReLU learns one slope, torch optionally one per channel; and its gradient at exactly zero is 1, torch's is the
slope.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx


class PReLU(nnx.Module):
    """torch.nn.PReLU, channels last: x for x > 0, negative_slope · x otherwise; the same shape out.

    Source: torch.nn.PReLU's documentation.

    Args:
        num_parameters: number of slopes: 1, or the length of the last axis.
        init: their initial value.
        dtype: of the result; None is the input's.
        param_dtype: of the slopes.
        rngs: accepted as by every nnx layer; nothing is drawn.
    """

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        *,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        rngs: nnx.Rngs | None = None,
    ) -> None:
        self.num_parameters = num_parameters
        self.negative_slope = nnx.Param(jnp.full((num_parameters,), init, param_dtype))
        self.dtype = dtype

    def __call__(self, x: jax.Array) -> jax.Array:
        """Apply PReLU to any shape; several slopes need a last axis of the same length."""
        dtype = self.dtype or x.dtype
        x = x.astype(dtype)
        slope = self.negative_slope[...].astype(dtype)
        return jnp.where(x > 0, x, (slope if self.num_parameters > 1 else slope[0]) * x)
