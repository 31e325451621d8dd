"""BatchNorm with PyTorch's semantics.

flax.nnx.BatchNorm stores the biased variance, torch the unbiased one; its momentum is the weight of the old statistics,
torch's that of the new batch; it computes the variance as E[x²] − E[x]², torch in two passes; and it supports neither
``num_batches_tracked`` nor ``momentum=None``. Normalised outputs in training agree; running statistics, and so every
evaluation, do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from port.errors import UsageError


class BatchNorm(nnx.Module):
    """torch.nn.BatchNorm1d, 2d and 3d, channels last.

    Training: y = (x − mean) / √(var + eps) · scale + bias with the batch's mean and biased variance over all axes
    but ``axis``; running = (1 − momentum) · running + momentum · batch, with the *unbiased* variance. Evaluation: the
    running statistics. Formula and defaults: torch.nn.BatchNorm2d's documentation.

    Args:
        num_features: channels, the length of ``axis``.
        eps: added to the variance.
        momentum: weight of the new batch, as in torch (flax's is 1 − that); None averages over all batches.
        use_scale: learn a factor per channel.
        use_bias: learn a shift per channel; torch's ``affine`` is both.
        track_running_stats: keep running statistics; without them, evaluation uses the batch's own.
        use_running_average: evaluation mode; set by ``model.eval()`` and ``model.train()``.
        axis: the channel axis.
        axis_name: a mapped axis to average the statistics over (torch's SyncBatchNorm).
        dtype: of the result; None keeps a half-precision input's dtype, as torch does, and otherwise promotes the
            dtypes of input and parameters. Statistics are computed in float32 at least.
        param_dtype: of scale, bias and running statistics.
        scale_metadata: of the scale, from `port.nn.logical_axes`.
        bias_metadata: of the bias.
        rngs: taken as every nnx layer takes it; nothing is drawn.

    Raises:
        UsageError: batch statistics of a single value per channel, in training or without running statistics (an error
            in torch too); a mask that is not bool or does not broadcast to the input. An empty batch is counted and
            changes no statistics.
    """

    def __init__(
        self,
        num_features: int,
        *,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        use_scale: bool = True,
        use_bias: bool = True,
        track_running_stats: bool = True,
        use_running_average: bool = False,
        axis: int = -1,
        axis_name: str | None = None,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        scale_metadata: Mapping[str, Any] = MappingProxyType({}),
        bias_metadata: Mapping[str, Any] = MappingProxyType({}),
        rngs: nnx.Rngs | None = None,
    ) -> None:
        shape = (num_features,)
        self.scale = nnx.Param(jnp.ones(shape, param_dtype), **scale_metadata) if use_scale else nnx.data(None)
        self.bias = nnx.Param(jnp.zeros(shape, param_dtype), **bias_metadata) if use_bias else nnx.data(None)
        tracked = track_running_stats
        self.mean: Any = nnx.BatchStat(jnp.zeros(shape, param_dtype)) if tracked else nnx.data(None)
        self.var: Any = nnx.BatchStat(jnp.ones(shape, param_dtype)) if tracked else nnx.data(None)
        self.num_batches_tracked: Any = nnx.BatchStat(jnp.zeros((), jnp.int32)) if tracked else nnx.data(None)
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.track_running_stats = track_running_stats
        self.use_running_average = use_running_average
        self.axis = axis
        self.axis_name = axis_name
        self.dtype = dtype

    def __call__(
        self, x: jax.Array, *, use_running_average: bool | None = None, mask: jax.Array | None = None
    ) -> jax.Array:
        """Normalise ``x``, of any shape with ``num_features`` along ``axis``; the result has the same shape.

        ``mask``, as in flax: bool, of a shape that broadcasts to x, such as (N, 1, 1, 1). The batch's statistics are
        taken over the positions where it is True, over all replicas of ``axis_name`` together, whatever their numbers:
        torch's statistics of the batch without padding. All positions are normalised. A channel with fewer than two
        True positions, which cannot raise under a trace, keeps its running statistics and gets variance 1.
        """
        axis = self.axis % x.ndim
        # Without values per channel any number of channels is accepted, as in torch.
        if x.shape[axis] != self.num_features and (self.scale, self.bias, self.mean) != (None, None, None):
            raise UsageError(f"BatchNorm of {self.num_features} features got shape {x.shape}, axis {axis}")
        evaluating = self.use_running_average if use_running_average is None else use_running_average
        per_channel = tuple(size if a == axis else 1 for a, size in enumerate(x.shape))
        dtype = self.dtype or self._result_dtype(x)
        # Statistics are never computed in half precision, as in torch.
        x = x.astype(jnp.promote_types(dtype, jnp.float32))

        if not x.size:
            if self.track_running_stats and not evaluating:
                self.num_batches_tracked[...] += 1
            return x.astype(dtype)
        if evaluating and self.track_running_stats:
            mean, var = self.mean[...], self.var[...]
        else:
            if mask is None:
                mean, var, count = self._batch_statistics(x, axis)
                if count < 2:
                    raise UsageError(f"BatchNorm needs more than one value per channel to normalise, got {x.shape}")
                self._update_running_statistics(mean, var * (count / (count - 1)))
            else:
                mean, var, counts = self._masked_statistics(x, axis, mask)
                self._update_running_statistics(mean, var * (counts / jnp.maximum(counts - 1, 1)), counts > 1)
                # Not 0: over many layers a factor of 1 / √eps would drive masked values to infinity, and gradients to
                # NaN.
                var = jnp.where(counts > 1, var, 1)

        mean, var = (value.astype(x.dtype).reshape(per_channel) for value in (mean, var))
        y = (x - mean) * jax.lax.rsqrt(var + self.eps)
        if self.scale is not None:
            y = y * self.scale[...].astype(x.dtype).reshape(per_channel)
        if self.bias is not None:
            y = y + self.bias[...].astype(x.dtype).reshape(per_channel)
        return y.astype(dtype)

    def _result_dtype(self, x: jax.Array) -> Any:
        if x.dtype in (jnp.bfloat16, jnp.float16):
            return x.dtype
        # `float` is weakly typed: it promotes integers and leaves floats unchanged.
        return jnp.result_type(x, float, *(v[...] for v in (self.scale, self.bias) if v is not None))

    def _batch_statistics(self, x: jax.Array, axis: int) -> tuple[jax.Array, jax.Array, int]:
        """Return the mean, the biased variance (in two passes) and the number of values per channel."""
        others = tuple(a for a in range(x.ndim) if a != axis)
        count = x.size // x.shape[axis]
        mean = x.mean(others, keepdims=True)
        if self.axis_name is not None:
            mean = jax.lax.pmean(mean, self.axis_name)
            count *= jax.lax.axis_size(self.axis_name)
        var = jnp.square(x - mean).mean(others)
        if self.axis_name is not None:
            var = jax.lax.pmean(var, self.axis_name)
        return mean.reshape(-1), var, count

    def _masked_statistics(self, x: jax.Array, axis: int, mask: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Return mean, biased variance and number of True positions per channel; 0 without any."""
        broadcasts = mask.ndim <= x.ndim and all(
            size in (1, whole) for size, whole in zip(mask.shape[::-1], x.shape[::-1], strict=False)
        )
        if mask.dtype != bool or not broadcasts:
            raise UsageError(f"a mask must be bool and broadcast to {x.shape}, got {mask.dtype} of shape {mask.shape}")
        mask = jnp.broadcast_to(mask, x.shape)

        def total(values: jax.Array) -> jax.Array:
            local = values.sum([a for a in range(x.ndim) if a != axis], keepdims=True)
            return local if self.axis_name is None else jax.lax.psum(local, self.axis_name)

        counts = total(mask).astype(x.dtype)
        divisor = jnp.maximum(counts, 1)
        mean = total(jnp.where(mask, x, 0)) / divisor
        var = total(jnp.square(jnp.where(mask, x - mean, 0))) / divisor
        return mean.reshape(-1), var.reshape(-1), counts.reshape(-1)

    def _update_running_statistics(self, mean: jax.Array, unbiased_var: jax.Array, where: Any = True) -> None:
        """Update the statistics of the channels where ``where`` is True; the batch is counted in any case."""
        if not self.track_running_stats:
            return
        seen = self.num_batches_tracked[...] + 1
        self.num_batches_tracked[...] = seen
        share: Any = self.momentum if self.momentum is not None else 1 / seen.astype(mean.dtype)
        for running, batch in ((self.mean, mean), (self.var, unbiased_var)):
            kept = running[...].astype(batch.dtype)
            new = (1 - share) * kept + share * jax.lax.stop_gradient(batch)
            running[...] = jnp.where(where, new, kept).astype(running.dtype)

    def set_view(self, use_running_average: bool | None = None) -> None:
        """Called by `nnx.view`."""
        if use_running_average is not None:
            self.use_running_average = use_running_average
