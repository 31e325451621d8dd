"""InstanceNorm with PyTorch's running statistics.

flax.nnx.InstanceNorm keeps no running statistics, computes the variance as E[x²] − E[x]², and takes the first axis for
the batch, so that an unbatched input is silently normalised over other axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from port.errors import UsageError


class InstanceNorm(nnx.Module):
    """torch.nn.InstanceNorm1d, 2d and 3d, channels last: (…, *spatial, num_features), the same shape out.

    y = (x − mean) / √(var + eps) · scale + bias, with the mean and biased variance of each channel of each example over
    the spatial axes. With running statistics, evaluation uses them; training averages the mean and the *unbiased*
    variance over the batch's examples, and stores (1 − momentum) · running + momentum · average. Formula and defaults:
    torch.nn.InstanceNorm2d's documentation.

    Args:
        num_features: channels, the length of the last axis.
        eps: added to the variance.
        momentum: weight of the new batch; None leaves the running statistics unchanged, as in torch.
        affine: learn a factor and a shift per channel.
        track_running_stats: keep running statistics.
        bias: whether ``affine`` learns a shift too.
        spatial: number of spatial axes; every axis before them is a batch axis.
        use_running_average: evaluation mode; set by ``model.eval()`` and ``model.train()``.
        dtype: of the result; None keeps a half-precision input's dtype, as torch does, and otherwise promotes the
            dtypes of input and parameters. Statistics are computed in float32 at least.
        param_dtype: of scale, bias and running statistics.
        scale_metadata: of the scale, from `port.nn.logical_axes`.
        bias_metadata: of the bias.
        rngs: taken as every nnx layer takes it; nothing is drawn.

    Raises:
        UsageError: at the call, a wrong number of channels, or statistics of a single value (an error in torch too).
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        bias: bool = True,
        *,
        spatial: int,
        use_running_average: bool = False,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        scale_metadata: Mapping[str, Any] = MappingProxyType({}),
        bias_metadata: Mapping[str, Any] = MappingProxyType({}),
        rngs: nnx.Rngs | None = None,
    ) -> None:
        shape = (num_features,)
        self.scale = nnx.Param(jnp.ones(shape, param_dtype), **scale_metadata) if affine else nnx.data(None)
        self.bias = nnx.Param(jnp.zeros(shape, param_dtype), **bias_metadata) if affine and bias else nnx.data(None)
        tracked = track_running_stats
        self.mean: Any = nnx.BatchStat(jnp.zeros(shape, param_dtype)) if tracked else nnx.data(None)
        self.var: Any = nnx.BatchStat(jnp.ones(shape, param_dtype)) if tracked else nnx.data(None)
        # torch has this buffer and never counts in it; it is kept to convert back.
        self.num_batches_tracked: Any = nnx.BatchStat(jnp.zeros((), jnp.int32)) if tracked else nnx.data(None)
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.track_running_stats = track_running_stats
        self.spatial = spatial
        self.use_running_average = use_running_average
        self.dtype = dtype

    def __call__(self, x: jax.Array, *, use_running_average: bool | None = None) -> jax.Array:
        """Normalise ``x`` (…, *spatial, num_features)."""
        # Without values per channel any number of channels is accepted, as in torch, which warns.
        counts = (self.scale, self.mean) != (None, None)
        if x.ndim <= self.spatial or (counts and x.shape[-1] != self.num_features):
            raise UsageError(
                f"InstanceNorm of {self.num_features} features and {self.spatial} spatial axes got shape {x.shape}"
            )
        evaluating = self.use_running_average if use_running_average is None else use_running_average
        dtype = self.dtype or self._result_dtype(x)
        # Statistics are never computed in half precision, as in torch.
        x = x.astype(jnp.promote_types(dtype, jnp.float32))

        if not x.size:
            return x.astype(dtype)
        if evaluating and self.track_running_stats:
            mean, var = self.mean[...].astype(x.dtype), self.var[...].astype(x.dtype)
        else:
            axes = tuple(range(x.ndim - 1 - self.spatial, x.ndim - 1))
            count = prod(x.shape[axis] for axis in axes)
            if count < 2:
                raise UsageError(f"InstanceNorm needs more than one value per channel to normalise, got {x.shape}")
            mean = x.mean(axes, keepdims=True)
            var = jnp.square(x - mean).mean(axes, keepdims=True)
            if self.track_running_stats and self.momentum:
                self._update_running_statistics(mean, var * (count / (count - 1)))

        y = (x - mean) * jax.lax.rsqrt(var + self.eps)
        if self.scale is not None:
            y = y * self.scale[...].astype(x.dtype)
        if self.bias is not None:
            y = y + self.bias[...].astype(x.dtype)
        return y.astype(dtype)

    def _result_dtype(self, x: jax.Array) -> Any:
        if x.dtype in (jnp.bfloat16, jnp.float16):
            return x.dtype
        return jnp.result_type(x, float, *(v[...] for v in (self.scale, self.bias) if v is not None))

    def _update_running_statistics(self, mean: jax.Array, unbiased_var: jax.Array) -> None:
        share: Any = self.momentum
        for running, values in ((self.mean, mean), (self.var, unbiased_var)):
            average = jax.lax.stop_gradient(values).reshape(-1, self.num_features).mean(0)
            new = (1 - share) * running[...].astype(average.dtype) + share * average
            running[...] = new.astype(running.dtype)

    def set_view(self, use_running_average: bool | None = None) -> None:
        """Called by `nnx.view`."""
        if use_running_average is not None:
            self.use_running_average = use_running_average
