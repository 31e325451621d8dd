"""PyTorch's initial distributions, as jax initializers.

flax draws kernels from a normal distribution and sets biases to zero; torch draws both uniformly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp


def torch_kernel() -> jax.nn.initializers.Initializer:
    """U(−1/√fan_in, 1/√fan_in), for the kernel of a linear layer (in, out) or convolution (*window, in, out).

    Source: torch.nn.Linear.reset_parameters, `kaiming_uniform_(a=√5)`, which works out to this bound.
    """
    return jax.nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")


def torch_bias(fan_in: int) -> jax.nn.initializers.Initializer:
    """U(−1/√fan_in, 1/√fan_in), for the bias beside such a kernel.

    Args:
        fan_in: inputs of one output: in_features, or in_channels / groups · the window's size.
    """
    bound = 1 / math.sqrt(fan_in)

    def initialize(
        key: jax.Array, shape: Sequence[int], dtype: Any = jnp.float32, out_sharding: Any = None
    ) -> jax.Array:
        return jax.random.uniform(key, tuple(shape), dtype, -bound, bound, out_sharding=out_sharding)

    return initialize
