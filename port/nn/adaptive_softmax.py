"""Adaptive softmax: frequent classes in one layer, rare ones in clusters with smaller layers.

Source: E. Grave et al., "Efficient softmax approximation for GPUs", https://arxiv.org/abs/1609.04309.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from port.errors import UsageError
from port.nn.initializers import torch_bias, torch_kernel


class AdaptiveLogSoftmaxOutput(NamedTuple):
    """Log-probabilities of the targets, (N,), and their mean with the sign changed."""

    output: jax.Array
    loss: jax.Array


class AdaptiveLogSoftmaxWithLoss(nnx.Module):
    """torch.nn.AdaptiveLogSoftmaxWithLoss; classes sorted by frequency, the most frequent is 0.

    torch computes a cluster only for the rows whose target is in it. The shapes of a compiled program cannot depend on
    the targets, so every cluster is computed for every row here: values and gradients are the same, but the saving is
    lost. Initial values are torch's.

    Args:
        in_features: the length of an input.
        n_classes: C.
        cutoffs: the first class of each cluster, rising, between 1 and C − 1.
        div_value: cluster i projects to in_features // div_value^(i + 1).
        head_bias: add a bias to the frequent classes and the clusters.
        dtype: of the computation; None promotes the dtypes of input and parameters.
        param_dtype: of the parameters.
        rngs: for the initial values.

    Raises:
        UsageError: cutoffs are empty, not increasing or not between 1 and C − 1; shapes of input and target do not
            match.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        *,
        div_value: float = 4.0,
        head_bias: bool = False,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        rngs: nnx.Rngs,
    ) -> None:
        bounds = (0, *cutoffs, n_classes)
        if not cutoffs or any(high <= low for low, high in pairwise(bounds)):
            raise UsageError(f"cutoffs must rise, between 1 and n_classes − 1 = {n_classes - 1}; got {list(cutoffs)}")
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = tuple(bounds[1:])
        self.div_value = div_value

        def linear(inputs: int, outputs: int, use_bias: bool = False) -> nnx.Linear:
            return nnx.Linear(
                inputs,
                outputs,
                use_bias=use_bias,
                # A small cluster of a large div_value may have a width of 0, as in torch.
                kernel_init=torch_kernel() if inputs * outputs else nnx.initializers.zeros,
                bias_init=torch_bias(in_features),
                dtype=dtype,
                param_dtype=param_dtype,
                rngs=rngs,
            )

        clusters = list(pairwise(self.cutoffs))
        self.head = linear(in_features, self.cutoffs[0] + len(clusters), head_bias)
        widths = [int(in_features // div_value ** (i + 1)) for i in range(len(clusters))]
        self.tail = nnx.List(
            [
                nnx.Sequential(linear(in_features, width), linear(width, high - low))
                for width, (low, high) in zip(widths, clusters, strict=True)
            ]
        )

    def __call__(self, input: jax.Array, target: jax.Array) -> AdaptiveLogSoftmaxOutput:
        """Compute the loss of inputs (N, in_features) and targets (N,), or of (in_features,) and ().

        A target that is not a class gives NaN: torch raises, which compiled code cannot.
        """
        if input.shape != (*target.shape, self.in_features) or target.ndim > 1:
            raise UsageError(
                f"targets (N,) need inputs (N, {self.in_features}), one target () an input ({self.in_features},); "
                f"got {target.shape} and {input.shape}"
            )
        head = jax.nn.log_softmax(self.head(input))
        output = _pick(head, target)
        for cluster, (low, high) in enumerate(pairwise(self.cutoffs)):
            within = _pick(jax.nn.log_softmax(self.tail[cluster](input)), target - low)
            output = jnp.where((target >= low) & (target < high), head[..., self.cutoffs[0] + cluster] + within, output)
        output = jnp.where((target >= 0) & (target < self.n_classes), output, jnp.nan)
        return AdaptiveLogSoftmaxOutput(output, -output.mean())

    def log_prob(self, input: jax.Array) -> jax.Array:
        """Log-probabilities of all classes: (N, in_features) → (N, C)."""
        frequent, clusters = jnp.split(jax.nn.log_softmax(self.head(input)), [self.cutoffs[0]], axis=-1)
        rare = [jax.nn.log_softmax(layer(input)) + clusters[..., i : i + 1] for i, layer in enumerate(self.tail)]
        return jnp.concatenate([frequent, *rare], axis=-1)

    def predict(self, input: jax.Array) -> jax.Array:
        """The most probable class: (N, in_features) → (N,)."""
        return self.log_prob(input).argmax(axis=-1)


def _pick(values: jax.Array, index: jax.Array) -> jax.Array:
    """Return values[…, index]; an index out of range is clipped."""
    index = jnp.clip(index, 0, values.shape[-1] - 1)
    return jnp.take_along_axis(values, index[..., None], axis=-1)[..., 0]
