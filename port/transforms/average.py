"""Averaged parameters with PyTorch's semantics: torch.optim.swa_utils.AveragedModel.

Pure functions over any tree of arrays:

    average = ema_average(0.999)
    averaged = average.init(params)
    averaged = average.update(params, averaged)   # after each optimizer step
    averaged.average                              # what AveragedModel.module holds

With the parameters alone it is ``AveragedModel(model)``, whose buffers are always the model's current ones; with the
parameters and the batch statistics in one tree it is ``use_buffers=True``.

optax.ema averages updates from zero, with a correction or without; optax.incremental_update is the single step
``average + weight·(params − average)``, without first copy, count, or integers. For the same parameters, `ema_average`
follows torch exactly, while optax.ema with its correction, an average of all its inputs, is off by 0.3 of the average's
norm after 60 steps at a decay of 0.99.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from port.errors import UsageError


class TorchAverageState(NamedTuple):
    """The contents of an AveragedModel.

    Attributes:
        n_averaged: int32 scalar, how often `update` was called; torch's buffer of the same name (int64 there).
        average: like the parameters, in their dtypes; torch's ``module``.
    """

    n_averaged: jax.Array
    average: Any


class TorchAverage(NamedTuple):
    """The two functions of an average: ``init(params) -> state``, ``update(params, state) -> state``."""

    init: Callable[[Any], TorchAverageState]
    update: Callable[[Any, TorchAverageState], TorchAverageState]


def swa_average() -> TorchAverage:
    """The equal average of all parameters so far: AveragedModel's default, `get_swa_avg_fn`.

    The first update copies; then average ← average + (params − average) / (n + 1). Formula: torch/optim/swa_utils.py.

    On CUDA, and with `get_swa_multi_avg_fn` anywhere, torch rounds 1 / (n + 1) to float32, also for float64
    parameters, which changes their average by 3e-8; here, as in torch on a CPU, it is not rounded.

    Integer leaves, as ``num_batches_tracked`` with ``use_buffers=True``, are averaged in float32 and truncated to
    integers at every update, so that one that counts up by one stays where it began. torch on a CPU does the same; its
    `get_swa_multi_avg_fn`, hence CUDA, raises in this case.
    """

    def averaged(average: jax.Array, params: jax.Array, count: jax.Array) -> jax.Array:
        # int32 would promote to float32, or to the default float.
        return average + (params - average) / (count + 1).astype(average.dtype)

    def averaged_integers(average: jax.Array, params: jax.Array, count: jax.Array) -> jax.Array:
        return average.astype(jnp.float32) + (params - average).astype(jnp.float32) / (count + 1).astype(jnp.float32)

    return _average(averaged, averaged_integers)


def ema_average(decay: jax.typing.ArrayLike = 0.999) -> TorchAverage:
    """The exponential moving average, ``AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))``.

    The first update copies; then average ← decay · average + (1 − decay) · params, computed as torch.lerp does.
    `get_ema_avg_fn` is the same but for the last bit. Formula: torch/optim/swa_utils.py, aten/src/ATen/native/Lerp.h.

    Integer leaves are averaged in float32 and truncated to integers at every update, as in torch: one that counts up
    by one falls ever further behind its average.

    Args:
        decay: 0 … 1, the share that is kept.

    Raises:
        UsageError: a decay outside of 0 … 1.
    """
    if isinstance(decay, (int, float)) and not 0 <= decay <= 1:
        raise UsageError(f"the decay of an average is between 0 and 1; it is {decay}. torch's default is 0.999")
    # With two Python numbers this is computed in float64, whatever the dtype of the leaves: torch's 1 - decay.
    weight = 1 - decay

    def averaged(average: jax.Array, params: jax.Array, count: jax.Array) -> jax.Array:
        share = jnp.asarray(weight, average.dtype)
        distance = params - average
        return jnp.where(share < 0.5, average + share * distance, params - distance * (1 - share))

    def averaged_integers(average: jax.Array, params: jax.Array, count: jax.Array) -> jax.Array:
        kept = average.astype(jnp.float32) * jnp.asarray(decay, jnp.float32)
        new = params.astype(jnp.float32) * jnp.asarray(weight, jnp.float32)
        # A bound that no integer reaches keeps XLA from fusing multiplication and addition into one rounding, which it
        # does even across its own barriers: the sum of 0.9 and 0.1 of a number could fall short of it, and be truncated
        # to one less.
        bound = 2.0**64
        return jnp.clip(kept, -bound, bound) + jnp.clip(new, -bound, bound)

    return _average(averaged, averaged_integers)


def _average(
    averaged: Callable[[jax.Array, jax.Array, jax.Array], jax.Array],
    averaged_integers: Callable[[jax.Array, jax.Array, jax.Array], jax.Array],
) -> TorchAverage:
    def init(params: Any) -> TorchAverageState:
        return TorchAverageState(jnp.zeros([], jnp.int32), jax.tree.map(jnp.asarray, params))

    def update(params: Any, state: TorchAverageState) -> TorchAverageState:
        count = state.n_averaged

        def leaf(average: jax.Array, param: jax.Array) -> jax.Array:
            function = averaged if jnp.issubdtype(average.dtype, jnp.floating) else averaged_integers
            new = function(average, param.astype(average.dtype), count).astype(average.dtype)
            return jnp.where(count == 0, param.astype(average.dtype), new)

        return TorchAverageState(optax.safe_increment(count), jax.tree.map(leaf, state.average, params))

    return TorchAverage(init, update)
