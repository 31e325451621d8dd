"""PyTorch's initial distributions, as jax initializers.

flax draws kernels from a normal distribution and sets biases to zero; torch draws both uniformly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from flax import nnx

Layer = TypeVar("Layer", bound=nnx.Module)


def torch_kernel() -> jax.nn.initializers.Initializer:
    """U(−1/√fan_in, 1/√fan_in), for the kernel of a linear layer (in, out) or convolution (*window, in, out).

    Source: torch.nn.Linear.reset_parameters, `kaiming_uniform_(a=√5)`, which works out to this bound.
    """
    return jax.nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")


def torch_bias(fan_in: int) -> jax.nn.initializers.Initializer:
    """U(−1/√fan_in, 1/√fan_in), for the bias that goes with such a kernel.

    Args:
        fan_in: number of inputs of one output: in_features, or in_channels / groups · the window's size.
    """
    bound = 1 / math.sqrt(fan_in)
    return torch_uniform(-bound, bound)


def torch_uniform(low: float, high: float) -> jax.nn.initializers.Initializer:
    """U(low, high), as ``torch.nn.init.uniform_``; jax's own starts at zero."""

    def initialize(
        key: jax.Array, shape: Sequence[int], dtype: Any = jnp.float32, out_sharding: Any = None
    ) -> jax.Array:
        return jax.random.uniform(key, tuple(shape), dtype, low, high, out_sharding=out_sharding)

    return initialize


def mapped(
    function: Callable[[jax.Array], jax.Array], drawn: jax.nn.initializers.Initializer
) -> jax.nn.initializers.Initializer:
    """Apply a function, element by element, to what another initializer draws."""

    def initialize(
        key: jax.Array, shape: Sequence[int], dtype: Any = jnp.float32, out_sharding: Any = None
    ) -> jax.Array:
        return function(_drawn(drawn, key, shape, dtype, out_sharding)).astype(dtype)

    return initialize


def patched(
    drawn: jax.nn.initializers.Initializer, *regions: tuple[Any, jax.nn.initializers.Initializer]
) -> jax.nn.initializers.Initializer:
    """Combine an initializer with others for regions of the array: ``patched(normal(0.02), (jnp.s_[0], zeros))``.

    Args:
        drawn: draws everything outside the regions.
        regions: pairs of an index of slices and the initializer for that part.
    """

    def initialize(
        key: jax.Array, shape: Sequence[int], dtype: Any = jnp.float32, out_sharding: Any = None
    ) -> jax.Array:
        first, *keys = jax.random.split(key, len(regions) + 1)
        made = _drawn(drawn, first, shape, dtype, out_sharding)
        for own, (index, initializer) in zip(keys, regions, strict=True):
            region = jax.eval_shape(lambda array, index=index: array[index], made).shape
            made = made.at[index].set(initializer(own, region, dtype))
        return made

    return initialize


def redrawn(layer: Layer, initializers: Mapping[str, jax.nn.initializers.Initializer], *, rngs: nnx.Rngs) -> Layer:
    """Redraw some of a layer's variables with other initializers.

    Args:
        layer: a new layer, changed in place.
        initializers: dotted path of a variable → its initializer.
        rngs: for the keys.
    """
    state = dict(nnx.to_flat_state(nnx.state(layer, nnx.Not(nnx.RngState))))
    for path, initializer in initializers.items():
        variable = state[tuple(int(part) if part.isdigit() else part for part in path.split("."))]
        variable[...] = initializer(rngs.params(), variable.shape, variable.dtype)
    nnx.update(layer, nnx.from_flat_state(state.items()))
    return layer


def _drawn(
    initializer: jax.nn.initializers.Initializer, key: jax.Array, shape: Sequence[int], dtype: Any, out_sharding: Any
) -> jax.Array:
    # A user's initializer may take only three arguments.
    return initializer(key, shape, dtype, **({} if out_sharding is None else {"out_sharding": out_sharding}))
