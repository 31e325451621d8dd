"""LayerNorm and RMSNorm over several axes, and RMSNorm with PyTorch's own epsilon.

The parameters of flax.nnx.LayerNorm and RMSNorm have one axis, torch's have all normalised axes; and the default
epsilon of torch's RMSNorm is that of the dtype it computes in, where flax's is a constant. Over one axis and with an
explicit epsilon, Flax's own layers are exact with ``use_fast_variance=False``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from port.errors import UsageError


class LayerNorm(nnx.Module):
    """torch.nn.LayerNorm: (…, *normalized_shape), the same shape out.

    y = (x − mean) / √(var + eps) · scale + bias, mean and biased variance over the normalised axes. Formula and
    defaults: torch.nn.LayerNorm's documentation.

    Args:
        normalized_shape: the lengths of the last axes, which are normalised together; an int is one axis.
        eps: added to the variance.
        elementwise_affine: learn a factor and a shift for each normalised element.
        bias: whether ``elementwise_affine`` learns a shift too.
        dtype: of the result; None keeps a half-precision input's dtype, and otherwise promotes the dtypes of input and
            parameters. Statistics are computed in float32 at least.
        param_dtype: of scale and bias, both of ``normalized_shape``.
        scale_metadata: of the scale, from `port.nn.logical_axes`.
        bias_metadata: of the bias.
        rngs: taken as every nnx layer takes it; nothing is drawn.

    Raises:
        UsageError: at the call, an input that does not end in ``normalized_shape``.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        scale_metadata: Mapping[str, Any] = MappingProxyType({}),
        bias_metadata: Mapping[str, Any] = MappingProxyType({}),
        rngs: nnx.Rngs | None = None,
    ) -> None:
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.dtype = dtype
        self.scale: Any = nnx.data(None)
        self.bias: Any = nnx.data(None)
        if elementwise_affine:
            self.scale = nnx.Param(jnp.ones(self.normalized_shape, param_dtype), **scale_metadata)
        if elementwise_affine and bias:
            self.bias = nnx.Param(jnp.zeros(self.normalized_shape, param_dtype), **bias_metadata)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Normalise ``x`` (…, *normalized_shape)."""
        axes = _last_axes(x, self.normalized_shape)
        dtype = self.dtype or _result_dtype(x, self.scale, self.bias)
        x = x.astype(jnp.promote_types(dtype, jnp.float32))
        x = x - x.mean(axes, keepdims=True)
        y = x * jax.lax.rsqrt(jnp.square(x).mean(axes, keepdims=True) + self.eps)
        if self.scale is not None:
            y = y * self.scale[...].astype(y.dtype)
        if self.bias is not None:
            y = y + self.bias[...].astype(y.dtype)
        return y.astype(dtype)


class RMSNorm(nnx.Module):
    """torch.nn.RMSNorm: (…, *normalized_shape), the same shape out.

    y = x / √(mean(x²) + eps) · scale over the normalised axes. Formula: torch.nn.RMSNorm's documentation.

    Args:
        normalized_shape: the lengths of the last axes, which are normalised together; an int is one axis.
        eps: added to the mean square; None is the machine epsilon of the dtype of the computation: the input's dtype,
            or float32 for half precision (measured on torch 2.15; its documentation says the input's).
        elementwise_affine: learn a factor for each normalised element.
        dtype: of the result; None keeps a half-precision input's dtype, and otherwise promotes the dtypes of input and
            parameters. The mean square is computed in float32 at least.
        param_dtype: of the scale, of ``normalized_shape``.
        scale_metadata: of the scale, from `port.nn.logical_axes`.
        rngs: taken as every nnx layer takes it; nothing is drawn.

    Raises:
        UsageError: at the call, an input that does not end in ``normalized_shape``.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        scale_metadata: Mapping[str, Any] = MappingProxyType({}),
        rngs: nnx.Rngs | None = None,
    ) -> None:
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.dtype = dtype
        self.scale: Any = nnx.data(None)
        if elementwise_affine:
            self.scale = nnx.Param(jnp.ones(self.normalized_shape, param_dtype), **scale_metadata)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Normalise ``x`` (…, *normalized_shape)."""
        axes = _last_axes(x, self.normalized_shape)
        dtype = self.dtype or _result_dtype(x, self.scale)
        x = x.astype(jnp.promote_types(dtype, jnp.float32))
        eps = self.eps if self.eps is not None else jnp.finfo(x.dtype).eps
        y = x * jax.lax.rsqrt(jnp.square(x).mean(axes, keepdims=True) + eps)
        if self.scale is not None:
            y = y * self.scale[...].astype(y.dtype)
        return y.astype(dtype)


def _shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


def _last_axes(x: jax.Array, normalized_shape: tuple[int, ...]) -> tuple[int, ...]:
    if x.shape[x.ndim - len(normalized_shape) :] != normalized_shape:
        raise UsageError(f"normalized_shape is {normalized_shape}, but the input of shape {x.shape} does not end in it")
    return tuple(range(-len(normalized_shape), 0))


def _result_dtype(x: jax.Array, *params: Any) -> Any:
    if x.dtype in (jnp.bfloat16, jnp.float16):
        return x.dtype
    return jnp.result_type(x, float, *(param[...] for param in params if param is not None))
